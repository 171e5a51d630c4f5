from __future__ import annotations

import pytest

from docagent_rl.rollout.digest import SessionDigest
from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from docagent_rl.training.trainer.summary import mask_reasons, summarise


def session(metrics=None, **kwargs):
    return Trajectory("u", 0, 1, "train", {"question_id": "q"}, "vrag_rl", metrics=metrics or {}, **kwargs)


def test_means_and_ranges():
    metrics = summarise(
        [
            session({"reward/total": 1.0, "turns": 3.0}, image_preprocessings=2, image_loads=3),
            session({"reward/total": 0.0, "turns": 1.0}, attempts=2),
        ]
    )
    assert metrics == {
        "docagent/reward/total": 0.5,
        "docagent/reward/total/min": 0.0,
        "docagent/reward/total/max": 1.0,
        "docagent/turns": 2.0,
        "docagent/masked/sample": 0.0,
        "docagent/masked/infrastructure": 0.0,
        "docagent/masked/empty": 0.0,
        "docagent/masked/failed": 0.0,
        "docagent/masked_trajectories": 0.0,
        "docagent/retried_sessions": 1.0,
        "docagent/image_preprocessings": 2.0,
        "docagent/image_loads": 3.0,
    }


def test_percentiles_are_those_of_all_searches_that_were_not_known():
    def searched(*seconds, known=()):
        rows = [{"retriever": "retriever", "tries": 1, "seconds": value} for value in seconds]
        rows += [{"retriever": "retriever", "tries": 0, "seconds": value} for value in known]
        return session(turns=[TrajectoryTurn("", "", [], [], searches=rows)])

    digests = [
        SessionDigest.of(searched(*range(51), known=[9e9])),
        SessionDigest.of(searched(*range(51, 101))),
    ]
    metrics = summarise([SessionDigest.from_json(digest.to_json()) for digest in digests])
    assert {name: metrics[f"docagent/retriever/{name}"] for name in ("p50_s", "p90_s", "p99_s")} == {
        "p50_s": 50.0,
        "p90_s": 90.0,
        "p99_s": 99.0,
    }


def test_masked_sessions_are_counted_and_left_out():
    fault = {"status": Status.MASKED.value, "end": "infrastructure", "error": "judge down"}
    masked = session({"reward/total": 9.0}, **fault)
    metrics = summarise([session({"reward/total": 0.25}), masked, masked])
    assert metrics["docagent/reward/total"] == pytest.approx(0.25)
    assert metrics["docagent/masked_trajectories"] == 2
    assert mask_reasons([masked, masked, session()]) == {"infrastructure: judge down": 2}


def test_the_funnel_is_of_the_sessions_whose_evidence_is_known():
    def session(number, *, page, right):
        effect = {"kind": "page", "pages": [{"page": f"r#{page}", "size": [9, 9]}]}
        info = {"action": {"kind": "fetch"}, "effect": effect, "valid": True, "executed": True}
        end = {"action": {"kind": "answer", "text": "x"}, "effect": {"kind": "answer"}, "executed": True}
        turns = [TrajectoryTurn("t", "end_of_turn", [1], [0.0], info=each) for each in (info, end)]
        record = {"doc_id": "r", "question": "q", "evidence_pages": [3] if page else []}
        return Trajectory(
            "u", number, 1, "train", record, "alden", turns=turns, metrics={"reward/answer": float(right)}
        )

    sessions = [
        session(0, page=3, right=True),
        session(1, page=2, right=True),
        session(2, page=0, right=True),
    ]
    found = summarise([SessionDigest.of(each) for each in sessions])
    funnel = {name: value for name, value in found.items() if name.startswith("docagent/funnel/")}
    assert funnel == {
        f"docagent/funnel/{name}": 0.5 for name in ("found", "shown", "looked", "kept", "right", "guessed")
    }
    assert not [name for name in summarise([]) if "funnel" in name]
