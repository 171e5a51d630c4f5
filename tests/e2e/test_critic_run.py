"""PPO with a value model, and a judge that fails for some questions."""

from __future__ import annotations

import json

import pytest

from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.critic import refused


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("critic")


def metrics(run, step):
    return json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())


def test_the_value_model_trains(run):
    for step in (1, 2):
        assert metrics(run, step)["critic/grad_norm"] > 0
        assert metrics(run, step)["critic/vf_loss"] >= 0
    assert metrics(run, 1)["critic/values/mean"] != metrics(run, 2)["critic/values/mean"]


def test_sessions_whose_judge_fails_are_masked_and_counted(run):
    masked, broken = 0, refused(run.workspace)
    for step in (1, 2):
        sessions = list(read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"))
        failed = [t for t in sessions if t.masked]
        assert metrics(run, step)["docagent/masked_trajectories"] == len(failed)
        masked += len(failed)
        for t in failed:
            assert t.end == "infrastructure"
            assert "judge" in t.error
            assert t.attempts == 2
            assert t.reward == 0
            assert t.record["question"] in broken
        for t in sessions:
            if not t.masked and t.end == "answered" and t.metrics["reward/outcome"]:
                assert t.record["question"] not in broken
    assert masked > 0
