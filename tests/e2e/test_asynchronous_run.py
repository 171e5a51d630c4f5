"""An asynchronous run with a value model, under faults: every session is trained on or masked, and once."""

from __future__ import annotations

import json

import pytest

from docagent_rl.rollout.trajectory import read_trajectories
from tests.e2e.asynchronous import STEPS, refused

QUESTIONS, SESSIONS = 4, 4
"""Of a step, and of a question (the profile's)."""


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("asynchronous").run


@pytest.fixture(scope="module")
def sessions(run):
    return {
        step: list(read_trajectories(run.run_dir / "trajectories" / f"{step}.jsonl"))
        for step in range(1, STEPS + 1)
    }


def test_it_goes_on_from_its_checkpoint(run):
    assert "Training from scratch" in (run.folder / "first.txt").read_text(errors="replace")
    log = run.log.read_text(errors="replace")
    assert "Resuming from" in log
    assert "TransferQueue" in log
    assert (run.run_dir / "checkpoints" / f"global_step_{STEPS}").is_dir()


def metrics(run, step):
    return json.loads((run.run_dir / "metrics" / f"{step}.json").read_text())


def test_the_value_model_trains(run):
    for step in range(1, STEPS + 1):
        assert metrics(run, step)["critic/grad_norm"] > 0
        assert metrics(run, step)["critic/vf_loss"] >= 0
    assert metrics(run, 1)["critic/values/mean"] != metrics(run, 2)["critic/values/mean"]


def test_every_session_of_a_step_is_accounted_for(run, sessions):
    for step, played in sessions.items():
        numbers = metrics(run, step)
        counts = [numbers[f"docagent/sessions/{name}"] for name in ("asked", "trained", "masked")]
        assert counts[0] == QUESTIONS * SESSIONS == len(played)
        assert counts[1] + counts[2] == counts[0]
        assert counts[2] == sum(t.masked for t in played) == numbers["docagent/masked_trajectories"]


def test_no_session_is_trained_on_twice(sessions):
    keys = [(t.uid, t.session) for played in sessions.values() for t in played]
    assert len(set(keys)) == len(keys)
    questions = {}
    for played in sessions.values():
        for t in played:
            questions.setdefault(t.record["question_id"], set()).add(t.uid)
    assert all(len(uids) == 1 for uids in questions.values())


def test_sessions_whose_judge_fails_are_masked_for_their_service(run, sessions):
    broken = refused(run.workspace)
    masked = [t for played in sessions.values() for t in played if t.masked]
    assert masked
    for t in masked:
        assert t.end == "infrastructure"
        assert "judge" in t.error
        assert t.attempts == 2
        assert t.reward == 0
        assert t.record["question"] in broken


def test_sessions_whose_judge_answers_are_rewarded(run, sessions):
    broken = refused(run.workspace)
    rewarded = [t for played in sessions.values() for t in played if t.metrics.get("reward/outcome")]
    assert rewarded
    assert not [t for t in rewarded if t.record["question"] in broken]
