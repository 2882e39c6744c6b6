import pytest

from toppo.cli.flags import whole_number
from toppo.cli.train import TrainFlags, _read_flags, _spec_from


@pytest.mark.parametrize("text", ["1000000", "1_000_000", "1e6", "1E+6", "1000000.0"])
def test_a_million_steps_can_be_written_in_each_usual_way(text):
    given = _read_flags(
        "toppo", "paper", "CartPole-v1", ["CartPole-v1", "--total-timesteps", text, "--checkpoint-every", text]
    )
    assert isinstance(given, TrainFlags)
    assert (given.total_timesteps, given.execution.checkpoint_every) == (1_000_000, 1_000_000)
    assert isinstance(given.total_timesteps, int)


@pytest.mark.parametrize("text", ["1.5", "1e-3", "many", "inf", "nan"])
def test_what_is_not_a_whole_number_is_refused(text):
    with pytest.raises(ValueError, match="is not a whole number"):
        whole_number(text)


@pytest.mark.parametrize("text", ["1.5", "many", "inf"])
def test_a_wrong_count_is_explained_on_the_screen(text, capsys):
    with pytest.raises(SystemExit):
        _read_flags("toppo", "paper", "CartPole-v1", ["CartPole-v1", "--total-timesteps", text])
    assert f"--total-timesteps: {text} is not a whole number" in "".join(capsys.readouterr())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.01", 0.01),
        ("linear", ((0.0, 3e-4), (1.0, 0.0))),
        ("[[0, 1e-3], [0.5, 0.0001], [1, 0]]", ((0.0, 1e-3), (0.5, 1e-4), (1.0, 0.0))),
    ],
)
def test_a_schedule_can_be_written_on_the_command_line(text, value):
    given = _read_flags("toppo", "paper", "CartPole-v1", ["CartPole-v1", "--preset", "paper", "--learning-rate", text])
    assert _spec_from(given).common.learning_rate == value
