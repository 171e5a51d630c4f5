from __future__ import annotations

import json

import pytest

from docagent_rl.errors import UserError
from tests.viewer_runs import run_folder, session


@pytest.fixture
def two(tmp_path, store):
    """The second run answers the second question, and has one that the first lacks."""

    def made(name, rewards):
        given = [
            session(store, number, question=question, step=3, split="val", reward=reward)
            for question, own in rewards.items()
            for number, reward in enumerate(own)
        ]
        for each in given:
            each.record["doc_id"] = f"D{each.record['question_id']}"
        return run_folder(tmp_path / name, given)

    return made("first", {1: [1.0, 0.0], 2: [0.0], 3: [1.0]}), made("second", {1: [1.0], 2: [1.0], 4: [1.0]})


def test_questions_pair_by_id(two, asked):
    found = asked(*two)("/api/compare?a=0&b=1&split=val&measure=reward")
    assert found["pairs"] == 2
    assert (found["mean_a"], found["mean_b"], found["difference"]) == (0.25, 1.0, 0.75)
    assert found["low"] <= 0.75 <= found["high"]
    assert [(row["question_id"], row["a"], row["b"]) for row in found["rows"]] == [
        ("q1", 0.5, 1.0),
        ("q2", 0.0, 1.0),
    ]
    assert (found["only_a"], found["only_b"], found["won"]) == (1, 1, 2)
    assert (found["step_a"], found["step_b"]) == (3, 3)


def test_a_row_leads_to_its_sessions(two, asked):
    ask = asked(*two)
    row = ask("/api/compare?a=0&b=1")["rows"][1]
    assert ask(f"/api/runs/0/sessions/{row['session_a']}")["reward"] == 0.0
    assert ask(f"/api/runs/1/sessions/{row['session_b']}")["reward"] == 1.0


def test_a_term_is_compared_as_well(two, asked):
    assert asked(*two)("/api/compare?a=0&b=1&measure=term:outcome")["mean_b"] == 1.0


@pytest.mark.parametrize(
    ("query", "message"),
    [("a=0&b=7", "no run 7"), ("a=0", "no run"), ("a=0&b=1&measure=x", "measure"),
     ("a=0&b=1&split=train", "train"), ("a=0&b=1&step_a=2", "in common"),
     ("a=0&b=1&measure=term:none", "in common")],
)  # fmt: skip
def test_what_cannot_be_compared_is_said(two, asked, query, message):
    with pytest.raises(UserError, match=message):
        asked(*two)(f"/api/compare?{query}")


def test_a_run_that_was_paid_again_pairs_session_by_session(tmp_path, store, asked):
    def made(name, steps):
        given = [
            session(store, number, question=1, step=step, split="train", reward=reward)
            for step, rewards in steps.items()
            for number, reward in enumerate(rewards)
        ]
        return run_folder(tmp_path / name, given)

    run, again = made("run", {1: [0.0, 1.0], 2: [5.0, 5.0]}), made("again", {1: [1.0, 1.0]})
    assert asked(run, again)("/api/compare?a=0&b=1&split=train")["mean_a"] == 5.0  # the last step of each
    (again / "rescore.json").write_text(json.dumps({"run": str(tmp_path / "another")}))
    assert asked(run, again)("/api/compare?a=0&b=1&split=train")["mean_a"] == 5.0
    (again / "rescore.json").write_text(json.dumps({"run": str(run.resolve())}))
    found = asked(run, again)("/api/compare?a=0&b=1&split=train")
    assert (found["mean_a"], found["mean_b"], found["step_a"]) == (0.5, 1.0, None)
    assert found["method"].startswith("the same sessions")
    with pytest.raises(UserError, match="no session of split=val in common"):
        asked(run, again)("/api/compare?a=0&b=1&split=val")
