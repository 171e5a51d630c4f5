"""In an asynchronous run with a value model, under faults, every trajectory is trained on or
masked, and only once.
"""

import numpy as np
import pytest

from tests.e2e.asynchronous import STEPS, refused

QUESTIONS, TRAJECTORIES = 4, 4
"""Questions per step, and trajectories per question (the profile's)."""


@pytest.fixture(scope="module")
def run(runs):
    return runs.result("asynchronous").run


@pytest.fixture(scope="module")
def trajectories(run):
    return {step: run.trajectories(step) for step in range(1, STEPS + 1)}


def test_it_goes_on_from_its_checkpoint(run):
    first, second = run.logged_by_start
    assert "Training from scratch" in first
    assert "Resuming from" in second
    assert "TransferQueue" in second
    assert "resumed from step " in run.said
    assert (run.run_dir / "checkpoints" / f"global_step_{STEPS}").is_dir()


def test_the_value_model_trains(run):
    for step in range(1, STEPS + 1):
        assert run.metrics(step)["critic/grad_norm"] > 0
        assert run.metrics(step)["critic/vf_loss"] >= 0
    assert run.metrics(1)["critic/values/mean"] != run.metrics(2)["critic/values/mean"]


def test_every_trajectory_of_a_step_is_accounted_for(run, trajectories):
    for step, played in trajectories.items():
        numbers = run.metrics(step)
        counts = [
            numbers[f"docagent/trajectories/{name}"] for name in ("asked", "trained", "masked")
        ]
        assert counts[0] == QUESTIONS * TRAJECTORIES == len(played)
        assert counts[1] + counts[2] == counts[0]
        assert counts[2] == sum(t.masked for t in played) == numbers["docagent/masked_trajectories"]


def test_searches_whose_server_died_are_asked_again(run, trajectories):
    """The process with LanceDB is killed in the first step and started again some seconds later."""
    retries = [
        sum(max(0, search["tries"] - 1) for turn in t.turns for search in turn.searches)
        for t in trajectories[1]
        if not t.masked and any(turn.searches for turn in t.turns)
    ]
    assert run.metrics(1)["docagent/retriever/retries"] == pytest.approx(np.mean(retries))
    assert sum(retries) > 0
    assert not [
        t for played in trajectories.values() for t in played if "retriever" in (t.error or "")
    ]


def test_no_trajectory_is_trained_on_twice(trajectories):
    keys = [(t.uid, t.number) for played in trajectories.values() for t in played]
    assert len(set(keys)) == len(keys)
    questions = {}
    for played in trajectories.values():
        for t in played:
            questions.setdefault(t.sample["question_id"], set()).add(t.uid)
    assert all(len(uids) == 1 for uids in questions.values())


def test_trajectories_whose_judge_fails_are_masked_for_their_service(run, trajectories):
    broken = refused(run.workspace)
    masked = [t for played in trajectories.values() for t in played if t.masked]
    assert masked
    for t in masked:
        assert t.end == "infrastructure"
        assert "judge" in t.error
        assert t.attempts == 2
        assert t.reward == 0
        assert t.sample["question"] in broken


def test_trajectories_whose_judge_answers_are_rewarded(run, trajectories):
    broken = refused(run.workspace)
    rewarded = [
        t for played in trajectories.values() for t in played if t.metrics.get("reward/outcome")
    ]
    assert rewarded
    assert not [t for t in rewarded if t.sample["question"] in broken]
