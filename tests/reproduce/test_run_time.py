from toppo.reproduce import run_time
from toppo.runs.presets import spec_for


def test_every_part_of_an_iteration_is_measured(monkeypatch):
    small = {
        "n_steps": 64,
        "n_minibatches": 2,
        "n_epochs": 1,
        "hidden": (8,),
        "warmup_steps": 64,
        "reset_each_batch": False,
    }
    monkeypatch.setattr(run_time, "spec_for", lambda *given: spec_for(*given, **small))
    found = run_time.measure_run_times(["trpo"], "Hopper-v5", 2)
    assert list(found) == ["trpo"]
    assert list(found["trpo"]) == list(run_time.COLOURS)
    assert min(found["trpo"].values()) > 0


def test_medians_are_per_thousand_steps_and_leave_out_what_compiles(monkeypatch):
    class Turn:
        def __init__(self, second):
            self.seconds = dict.fromkeys((*run_time.COLOURS, "start"), second)

    turns = [Turn(100.0)] * 8 + [Turn(2.0), Turn(5.0), Turn(1.0), Turn(50.0)]
    monkeypatch.setattr("toppo.learn.session.train", lambda *given: iter(turns))
    found = run_time.measure_run_times(["ppo"], "Hopper-v5", 3)
    assert set(found["ppo"].values()) == {2000.0 / 2.048}  # milliseconds per thousand steps of batches of 2048
