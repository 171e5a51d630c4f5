import json

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.envs.outcome import UNJUDGED
from tests.viewer_runs import run_folder, trajectory


@pytest.fixture
def write(tmp_path, store):
    """Write a run of trajectories with these rewards, by (question, step)."""

    def make(name, rewards, split="val"):
        given = [
            trajectory(store, number, question=question, step=step, split=split, reward=reward)
            for (question, step), own in rewards.items()
            for number, reward in enumerate(own)
        ]
        for each in given:
            each.sample["doc_id"] = f"D{each.sample['question_id']}"
        return run_folder(tmp_path / name, given)

    return make


@pytest.fixture
def two(write, asked):
    """Return two runs: the second answers the second question, and has a question that the first
    lacks.
    """
    first = write("first", {(1, 3): [1.0, 0.0], (2, 3): [0.0], (3, 3): [1.0]})
    return asked(first, write("second", {(1, 3): [1.0], (2, 3): [1.0], (4, 3): [1.0]}))


def test_questions_pair_by_id_and_lead_to_their_trajectories(two):
    found = two("/api/compare?a=0&b=1&split=val&measure=reward")
    expected = {"pairs": 2, "mean_a": 0.25, "mean_b": 1.0, "difference": 0.75}
    expected |= {"won": 2, "step_a": 3, "step_b": 3}
    assert {name: found[name] for name in expected} == expected
    assert found["low"] <= 0.75 <= found["high"]
    rows = [(row["question_id"], row["a"], row["b"]) for row in found["rows"]]
    assert rows == [("q1", 0.5, 1.0), ("q2", 0.0, 1.0)]
    row = found["rows"][1]
    assert two(f"/api/runs/0/trajectories/{row['trajectory_a']}")["reward"] == 0.0
    assert two(f"/api/runs/1/trajectories/{row['trajectory_b']}")["reward"] == 1.0
    assert two("/api/compare?a=0&b=1&measure=term:outcome")["mean_b"] == 1.0


@pytest.mark.parametrize(
    ("query", "message"),
    [("a=0&b=7", "7"), ("a=0", "run="), ("a=0&b=1&measure=x", "measure"), ("a=0&b=1&split=train",
    "train"),
     ("a=0&b=1&step_a=2", "in common"), ("a=0&b=1&measure=term:none", "in common")],
)  # fmt: skip
def test_what_cannot_be_compared_is_said(two, query, message):
    with pytest.raises(UserError, match=message):
        two(f"/api/compare?{query}")


def test_a_run_that_was_paid_again_pairs_trajectory_by_trajectory(tmp_path, write, asked):
    run = write("run", {(1, 1): [0.0, 1.0], (1, 2): [5.0, 5.0]}, "train")
    again = write("again", {(1, 1): [1.0, 1.0]}, "train")

    def compared(split="train", **of):
        if of:
            (again / "rescore.json").write_text(json.dumps(of))
        return asked(run, again)(f"/api/compare?a=0&b=1&split={split}")

    assert compared()["mean_a"] == 5.0  # the last step of each
    assert compared(run=str(tmp_path / "another"))["mean_a"] == 5.0
    assert compared()["same_trajectories"] is False
    found = compared(run=str(run.resolve()))
    assert (found["mean_a"], found["mean_b"], found["step_a"]) == (0.5, 1.0, None)
    assert found["same_trajectories"] is True
    with pytest.raises(UserError, match="split=val"):
        compared("val")


def test_the_steps_of_one_run_are_compared_the_first_and_the_last_by_default(write, asked):
    run = write("run", {(1, step): [reward] for step, reward in ((1, 0.0), (2, 0.25), (3, 1.0))})
    ask = asked(run)
    for steps, difference in (("", 1.0), ("&step_a=2", 0.75), ("&step_b=2", 0.25)):
        assert ask(f"/api/compare?a=0&b=0{steps}")["difference"] == difference
    with pytest.raises(UserError, match="step 3"):
        ask("/api/compare?a=0&b=0&step_a=3")


REWARDS = {
    "paper": "variant: paper",
    "again": "variant: paper, max_turns: 3",
    "released": "variant: released",
}


@pytest.mark.parametrize(
    ("other", "measure", "same"),
    [("again", "reward", True), ("released", "reward", False), ("released", "term:outcome", False),
     ("released", "turns", None), (None, "reward", None)],
)  # fmt: skip
def test_whether_two_runs_are_rewarded_alike_is_said(write, asked, other, measure, same):
    runs = []
    for name in ("paper", other):
        runs.append(write(f"of_{name}", {(1, 1): [1.0]}))
        if name:
            (runs[-1] / "hydra").mkdir()
            config = f"docagent: {{system: vrag_rl, env: {{{REWARDS[name]}}}}}"
            (runs[-1] / "hydra" / "config.yaml").write_text(config)
    ask = asked(*runs)
    found = ask(f"/api/compare?a=0&b=1&measure={measure}")
    assert (found["same_reward"], found["formula_a"]) == (same, "0.2 retrieval_ndcg + 0.8 outcome")
    (row,) = ask("/api/runs/0/trajectories")["rows"]
    weights = {"retrieval_ndcg": 0.2, "outcome": 0.8, "format": 0.0}
    assert ask(f"/api/runs/0/trajectories/{row['id']}")["formula"] == {
        "text": found["formula_a"],
        "weights": weights,
    }


def unjudged(run, *, questions):
    """Make the answers to these questions unjudged."""
    for file in (run / "trajectories").glob("*.jsonl"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            if line["sample"]["question_id"] in questions:
                line["outcome"] = {"state": UNJUDGED.state, "score": UNJUDGED.score}
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return run


def test_unjudged_answers_are_counted_and_not_compared_as_wrong(write, asked):
    first = unjudged(
        write("first", {(1, 3): [1.0], (2, 3): [0.0], (3, 3): [0.0]}), questions={"q2"}
    )
    second = write("second", {(1, 3): [1.0], (2, 3): [1.0], (3, 3): [1.0]})
    ask = asked(first, second)
    found = ask("/api/compare?a=0&b=1&measure=right")
    assert [(row["question_id"], row["a"], row["b"]) for row in found["rows"]] == [
        ("q1", 1, 1),
        ("q3", 0, 1),
    ]
    assert (found["mean_a"], found["unjudged_a"], found["unjudged_b"]) == (0.5, 1, 0)
    assert ask("/api/compare?a=0&b=1&measure=reward")["pairs"] == 3


def test_a_run_none_of_whose_answers_was_judged_is_named(write, asked):
    closed = unjudged(write("closed", {(1, 3): [0.0], (2, 3): [0.0]}), questions={"q1", "q2"})
    ask = asked(write("open", {(1, 3): [1.0]}), closed)
    with pytest.raises(UserError, match=r"none of the 2 answers of closed was judged.*rescore"):
        ask("/api/compare?a=0&b=1&measure=right")


def test_a_rescore_that_judges_more_is_compared_where_both_judged(write, asked):
    run = unjudged(write("run", {(1, 1): [0.0, 1.0], (2, 1): [0.0]}, "train"), questions={"q2"})
    again = write("again", {(1, 1): [1.0, 1.0], (2, 1): [1.0]}, "train")
    (again / "rescore.json").write_text(json.dumps({"run": str(run.resolve())}))
    found = asked(run, again)("/api/compare?a=0&b=1&split=train&measure=right")
    assert (found["same_trajectories"], found["mean_a"], found["mean_b"]) == (True, 0.5, 1.0)
    assert (found["unjudged_a"], found["unjudged_b"]) == (1, 0)
