from __future__ import annotations

import json

from docagent_rl.rollout.trajectory import read_trajectories


def test_the_example_trains(runs):
    run = runs.result("custom")
    for step in (1, 2):
        metrics = json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())
        assert {"docagent/reward/correct", "docagent/reward/short", "docagent/turns"} <= metrics.keys()
        assert metrics["docagent/masked_trajectories"] == 0
        sessions = list(read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"))
        assert {t.system for t in sessions} == {"one_look"}
        assert len({t.metrics["reward/short"] for t in sessions}) > 1
