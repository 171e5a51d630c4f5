"""verl's trackers, including ours."""

import pytest
from verl.utils.tracking import Tracking

from docagent_rl.training.trainer import console_tracker
from docagent_rl.training.trainer.console_tracker import TRACKER


def tracking(backends=("console",)):
    return Tracking("project", "run", list(backends))


def test_verl_still_refuses_trackers_that_it_does_not_know():
    with pytest.raises(AssertionError, match="docagent is not supported"):
        Tracking.__init__.__wrapped__(object.__new__(Tracking), "project", "run", [TRACKER])


def test_ours_gets_the_numbers_of_a_run_that_has_a_console(monkeypatch, capsys):
    assert TRACKER not in tracking().logger
    shown = []
    made = console_tracker.ConsoleTracker(shown.append)
    monkeypatch.setattr(console_tracker, "console_tracker", lambda: made)
    ours = tracking()
    ours.log({"reward": 1, "text": "x", "none": None}, step=3)
    ours.finish()
    assert shown == [{"kind": "numbers", "step": 3, "numbers": {"reward": 1.0}}]
    assert "step:3 - reward:1" in capsys.readouterr().out
