from __future__ import annotations

import pytest

from docagent_rl.errors import UserError
from docagent_rl.rollout.evidence import Evidence, Stage
from docagent_rl.viewer.funnel import counts_of, lost_at
from tests.viewer_runs import run_folder, session

FUNNEL = "/api/runs/0/funnel"


@pytest.fixture
def lossy(tmp_path, store, asked):
    """One session comes through; one answers wrong; one never searches; one never answers; one is masked."""
    blind, mute = session(store, 2, question=3), session(store, 3, step=2)
    blind.turns, mute.turns = blind.turns[-1:], mute.turns[:-1]
    unknown = session(store, 5, step=2)
    unknown.record["evidence_pages"], unknown.record["evidence_boxes"] = [], {}
    masked = session(store, 4, status="masked")
    given = [session(store, 0), session(store, 1, reward=0.0), blind, mute, masked, unknown]
    return asked(run_folder(tmp_path / "run", given))


def test_each_loss_names_its_sessions(lossy):
    (group,) = lossy(FUNNEL)["groups"]
    counts = {"all": 4, "reach": None, "found": 3, "shown": 3, "looked": 3, "kept": 2, "right": 1}
    assert group["counts"] == counts
    assert (group["without"], group["right"], group["guessed"]) == (2, 4, 1)
    for stage, missing in (("found", 2), ("kept", 3), ("right", 1)):
        (number,) = group["lost"][stage]
        assert lossy(f"/api/runs/0/sessions/{number}")["session"] == missing
        rows = lossy(f"/api/runs/0/sessions?{group['filters'][stage]}")["rows"]
        assert [row["id"] for row in rows] == [number]
    assert group["lost_counts"] == {"found": 1, "shown": 0, "looked": 0, "kept": 1, "right": 1}


def test_it_is_counted_apart_and_under_filters(lossy):
    by_step = {group["key"]: group["counts"]["all"] for group in lossy(f"{FUNNEL}?by=step")["groups"]}
    assert by_step == {"1": 3, "2": 1}
    assert [group["key"] for group in lossy(f"{FUNNEL}?by=kind&step=1")["groups"]] == ["Chart"]
    with pytest.raises(UserError, match="by='colour'"):
        lossy(f"{FUNNEL}?by=colour")


def test_reach_counts_where_it_is_known_of_all():
    known = [(1, Evidence(Stage.ALL, False, False)), (2, Evidence(Stage.REACH, True, False)),
             (3, Evidence(Stage.RIGHT, None, True))]  # fmt: skip
    counts = counts_of(evidence for _, evidence in known)
    assert (counts["reach"], counts["found"]) == (2, 1)
    assert lost_at(known, counts)["reach"] == [1]
    assert lost_at(known, counts)["found"] == [2]
    assert counts_of([*(e for _, e in known), Evidence(Stage.ALL, None, False)])["reach"] is None
