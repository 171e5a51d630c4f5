from __future__ import annotations

import pytest
import torch

from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.summary import mask_reasons, summarise, turn_report


def session(metrics=None, **kwargs):
    return Trajectory("u", 0, 1, "train", {"question_id": "q"}, "vrag_rl", metrics=metrics or {}, **kwargs)


def test_means_ranges_and_counts():
    masked = session({"reward/total": 9.0}, status=Status.MASKED.value, end="infrastructure", error="down")
    sessions = [
        session({"reward/total": 1.0, "turns": 3.0}, image_preprocessings=2, image_loads=3),
        session({"reward/total": 0.0, "turns": 1.0}, attempts=2),
        masked,
        masked,
    ]
    assert {name.removeprefix("docagent/"): value for name, value in summarise(sessions).items()} == {
        "reward/total": 0.5,
        "reward/total/min": 0.0,
        "reward/total/max": 1.0,
        "turns": 2.0,
        "masked/sample": 0.0,
        "masked/infrastructure": 2.0,
        "masked/empty": 0.0,
        "masked/failed": 0.0,
        "masked_trajectories": 2.0,
        "retried_sessions": 1.0,
        "image_preprocessings": 2.0,
        "image_loads": 3.0,
    }
    assert mask_reasons(sessions) == {"infrastructure: down": 2}


def test_percentiles_are_those_of_all_searches_that_were_not_known():
    def searched(*seconds, known=()):
        rows = [{"retriever": "r", "tries": 1, "seconds": value} for value in seconds]
        rows += [{"retriever": "r", "tries": 0, "seconds": value} for value in known]
        return SessionDigest.of(session(turns=[TrajectoryTurn("", "", [], [], searches=rows)]))

    digests = [searched(*range(51), known=[9e9]), searched(*range(51, 101))]
    metrics = summarise([SessionDigest.from_json(digest.to_json()) for digest in digests])
    assert [metrics[f"docagent/r/p{n}_s"] for n in (50, 90, 99)] == [50.0, 90.0, 99.0]


def test_the_funnel_is_of_the_sessions_whose_evidence_is_known():
    def found(page, evidence):
        effect = {"kind": "page", "pages": [{"page": f"r#{page}", "size": [9, 9]}]}
        info = {"action": {"kind": "fetch"}, "effect": effect, "valid": True, "executed": True}
        end = {"action": {"kind": "answer", "text": "x"}, "effect": {"kind": "answer"}, "executed": True}
        turns = [TrajectoryTurn("t", "end_of_turn", [1], [0.0], info=each) for each in (info, end)]
        made = session({"reward/answer": 1.0}, turns=turns)
        made.system = "alden"
        made.record = {"doc_id": "r", "question": "q", "evidence_pages": evidence}
        return SessionDigest.of(made)

    metrics = summarise([found(3, [3]), found(2, [3]), found(9, [])])
    funnel = {name: value for name, value in metrics.items() if "funnel" in name}
    stages = ("found", "shown", "looked", "kept", "right", "guessed")
    assert funnel == {f"docagent/funnel/{name}": 0.5 for name in stages}
    assert not [name for name in summarise([]) if "funnel" in name]


# a session of two rows, whose second turn stands in its second row, and one of one row
KEYS = ["a_b_0_0", "a_b_0_1", "a_b_1_0"]
COLUMNS = {
    "response_mask": [[1, 1, 0], [1, 1, 0], [1, 0, 0]],
    "turn_index": [[0, 0, -1], [0, 0, -1], [0, -1, -1]],
    "rm_scores": [[0, 0.5, 0], [0, 1.0, 0], [-1.0, 0, 0]],
    "advantages": [[1.0, 3, 0], [4, 4, 0], [6, 0, 0]],
    "returns": [[0, 0.5, 0], [1, 1.0, 0], [-1.0, 0, 0]],
}


def turns(**changes):
    columns = {name: torch.tensor(rows) for name, rows in (COLUMNS | changes).items()}
    return turn_report(KEYS, [Trajectory("a_b", n, 1, "train", {}, "mine") for n in (0, 0, 1)], columns)


def test_turns_go_on_in_the_next_row():
    found = turns(values=[[9, 0.2, 9], [9, 0.4, 0], [0.6, 0, 0]])
    assert (found["turns/sessions/1"], found["turns/sessions/2"]) == (2, 1)
    assert found["turns/reward/1"] == pytest.approx(-0.25)
    assert found["turns/reward/2"] == pytest.approx(1.0)
    assert found["turns/advantage/1"] == pytest.approx(10 / 3)
    assert [found["turns/value/1"], found["turns/value/2"]] == pytest.approx([0.4, 0.4])


def test_rejected_tokens_keep_their_reward():
    masks = [[1, 0, 0], [1, 1, 0], [1, 0, 0]]
    found = turns(response_mask=masks, advantages=[[1.0, 0, 0], [4, 4, 0], [6, 0, 0]])
    assert found["turns/reward/1"] == pytest.approx(-0.25)
    assert found["turns/advantage/1"] == pytest.approx(7 / 3)
    assert "turns/value/1" not in found
