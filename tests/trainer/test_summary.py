from __future__ import annotations

import pytest

from docagent_rl.rollout.trajectory import Status, Trajectory
from docagent_rl.trainer.summary import mask_reasons, summarise


def session(metrics=None, **kwargs):
    return Trajectory("u", 0, 1, "train", {"question_id": "q"}, "vrag_rl", metrics=metrics or {}, **kwargs)


def test_means_and_ranges():
    metrics = summarise(
        [
            session({"reward/total": 1.0, "turns": 3.0}, image_preprocessings=2),
            session({"reward/total": 0.0, "turns": 1.0}, attempts=2),
        ]
    )
    assert metrics == {
        "docagent/reward/total": 0.5,
        "docagent/reward/total/min": 0.0,
        "docagent/reward/total/max": 1.0,
        "docagent/turns": 2.0,
        "docagent/masked_trajectories": 0.0,
        "docagent/retried_sessions": 1.0,
        "docagent/image_preprocessings": 2.0,
    }


def test_masked_sessions_are_counted_and_left_out():
    fault = {"status": Status.MASKED.value, "end": "infrastructure", "error": "judge down"}
    masked = session({"reward/total": 9.0}, **fault)
    metrics = summarise([session({"reward/total": 0.25}), masked, masked])
    assert metrics["docagent/reward/total"] == pytest.approx(0.25)
    assert metrics["docagent/masked_trajectories"] == 2
    assert mask_reasons([masked, masked, session()]) == {"infrastructure: judge down": 2}
