import pytest

from toppo.cli.train import First, TrainFlags, _read_flags, _spec_from
from toppo.cli.words import whole_number
from toppo.errors import ToppoError
from toppo.runs.config import Config

FIRST = First(Config(), "toppo", "paper", "CartPole-v1")


@pytest.mark.parametrize("text", ["1000000", "1_000_000", "1e6", "1E+6", "1000000.0"])
def test_a_million_steps_can_be_written_in_each_usual_way(text):
    given = _read_flags(FIRST, ["CartPole-v1", "--total-timesteps", text, "--checkpoint-every", text])
    assert isinstance(given, TrainFlags)
    assert (given.total_timesteps, given.execution.checkpoint_every) == (1_000_000, 1_000_000)
    assert isinstance(given.total_timesteps, int)


@pytest.mark.parametrize("text", ["1.5", "1e-3", "many", "inf", "nan"])
def test_what_is_not_a_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="is not a whole number"):
        whole_number(text)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--total-timesteps", "many"], "--total-timesteps is 'many', but must be a whole number"),
        (["--seed", "1.5"], "--seed is '1.5', but must be a whole number"),
        (["--seed="], "--seed is '', but must be a whole number"),
        (["--hidden", "64", "x"], "--hidden is 'x', but must be a whole number"),
        (["--gamma", "x"], "--gamma is 'x', but must be a number"),
        (["--alpha", "x"], "--alpha is 'x', but must be a number or auto"),
        (["--on-nan", "stop"], "--on-nan is 'stop', but must be one of raise, truncate"),
        (["--seed"], "--seed needs a value: toppo train --help shows which"),
        (["--seed", "--gamma", "0.9"], "--seed needs a value: toppo train --help shows which"),
        (["--select=3"], "--select takes no value, but is given '3': write --select alone"),
        (["extra"], "toppo train takes ENV, but 2 words stand there: toppo train --help shows all"),
        (
            ["--batch-size", "64"],
            "toppo train has no option --batch-size: n_minibatches is the number of minibatches per pass",
        ),
        (["-v"], "toppo train has no option -v: toppo train --help shows all"),
    ],
)
def test_a_wrong_word_is_one_sentence(words, sentence):
    with pytest.raises(ToppoError) as refusal:
        _read_flags(FIRST, ["CartPole-v1", *words])
    assert str(refusal.value) == sentence


def test_an_argument_that_is_missing_is_named():
    with pytest.raises(ToppoError, match="toppo train needs ENV: "):
        _read_flags(FIRST, [])


def test_values_that_look_like_options_are_values():
    given = _read_flags(FIRST, ["CartPole-v1", "--log-std-init", "-0.5", "--n-steps=1e3", "--env_restarts", "2"])
    assert (given.shared.log_std_init, given.own.n_steps, given.execution.env_restarts) == (-0.5, 1000, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.01", 0.01),
        ("linear", ((0.0, 3e-4), (1.0, 0.0))),
        ("[[0, 1e-3], [0.5, 0.0001], [1, 0]]", ((0.0, 1e-3), (0.5, 1e-4), (1.0, 0.0))),
    ],
)
def test_a_schedule_can_be_written_on_the_command_line(text, value):
    given = _read_flags(FIRST, ["CartPole-v1", "--preset", "paper", "--learning-rate", text])
    assert _spec_from(given, Config()).common.learning_rate == value
