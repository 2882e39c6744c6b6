from toppo.display.console import Terminal, at_words

COMMAND = "  next    toppo evaluate runs/CartPole-v1__toppo__0__20260101-010203 --video runs/video.mp4"


def test_lines_are_broken_between_words():
    text = "short\n  a line of several words that is too long for twenty"
    assert at_words(text, 20).splitlines() == [
        "short",
        "  a line of several",
        "  words that is too",
        "  long for twenty",
    ]
    assert at_words(text, 200) == text


def test_a_command_that_is_broken_can_still_be_copied():
    lines = at_words(COMMAND, 80, " \\").splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].endswith("--video \\")
    assert "".join(line.removesuffix("\\") for line in lines).split() == COMMAND.split()


def test_a_word_longer_than_the_line_is_left_whole():
    assert at_words("a " + "x" * 30, 20).splitlines() == ["a", "x" * 30]


def test_only_a_terminal_gets_other_lines():
    assert Terminal(width=40, force_terminal=False).at_words(COMMAND) == COMMAND
    assert Terminal(width=40, force_terminal=True).at_words(COMMAND) != COMMAND
