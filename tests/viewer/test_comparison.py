from __future__ import annotations

import json

import pytest

from docagent_rl.errors import UserError
from tests.viewer_runs import run_folder, session


@pytest.fixture
def write(tmp_path, store):
    """A run of sessions with these rewards, by (question, step)."""

    def make(name, rewards, split="val"):
        given = [
            session(store, number, question=question, step=step, split=split, reward=reward)
            for (question, step), own in rewards.items()
            for number, reward in enumerate(own)
        ]
        for each in given:
            each.record["doc_id"] = f"D{each.record['question_id']}"
        return run_folder(tmp_path / name, given)

    return make


@pytest.fixture
def two(write, asked):
    """The second run answers the second question, and has one that the first lacks."""
    first = write("first", {(1, 3): [1.0, 0.0], (2, 3): [0.0], (3, 3): [1.0]})
    return asked(first, write("second", {(1, 3): [1.0], (2, 3): [1.0], (4, 3): [1.0]}))


def test_questions_pair_by_id_and_lead_to_their_sessions(two):
    found = two("/api/compare?a=0&b=1&split=val&measure=reward")
    expected = {"pairs": 2, "mean_a": 0.25, "mean_b": 1.0, "difference": 0.75, "only_a": 1, "only_b": 1}
    expected |= {"won": 2, "step_a": 3, "step_b": 3}
    assert {name: found[name] for name in expected} == expected
    assert found["low"] <= 0.75 <= found["high"]
    rows = [(row["question_id"], row["a"], row["b"]) for row in found["rows"]]
    assert rows == [("q1", 0.5, 1.0), ("q2", 0.0, 1.0)]
    row = found["rows"][1]
    assert two(f"/api/runs/0/sessions/{row['session_a']}")["reward"] == 0.0
    assert two(f"/api/runs/1/sessions/{row['session_b']}")["reward"] == 1.0
    assert two("/api/compare?a=0&b=1&measure=term:outcome")["mean_b"] == 1.0


@pytest.mark.parametrize(
    ("query", "message"),
    [("a=0&b=7", "7"), ("a=0", "no run"), ("a=0&b=1&measure=x", "measure"), ("a=0&b=1&split=train", "train"),
     ("a=0&b=1&step_a=2", "in common"), ("a=0&b=1&measure=term:none", "in common")],
)  # fmt: skip
def test_what_cannot_be_compared_is_said(two, query, message):
    with pytest.raises(UserError, match=message):
        two(f"/api/compare?{query}")


def test_a_run_that_was_paid_again_pairs_session_by_session(tmp_path, write, asked):
    run = write("run", {(1, 1): [0.0, 1.0], (1, 2): [5.0, 5.0]}, "train")
    again = write("again", {(1, 1): [1.0, 1.0]}, "train")

    def compared(split="train", **of):
        if of:
            (again / "rescore.json").write_text(json.dumps(of))
        return asked(run, again)(f"/api/compare?a=0&b=1&split={split}")

    assert compared()["mean_a"] == 5.0  # the last step of each
    assert compared(run=str(tmp_path / "another"))["mean_a"] == 5.0
    found = compared(run=str(run.resolve()))
    assert (found["mean_a"], found["mean_b"], found["step_a"]) == (0.5, 1.0, None)
    with pytest.raises(UserError, match="split=val"):
        compared("val")
