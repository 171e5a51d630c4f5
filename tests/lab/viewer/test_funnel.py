from itertools import pairwise

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.envs.outcome import UNJUDGED, OutcomeState
from docagent_rl.lab.viewer.funnel import counts_of, lost_at
from docagent_rl.rollout.evidence import Evidence, Stage
from tests.viewer_runs import run_folder, trajectory

FUNNEL = "/api/runs/0/funnel"
WRONG = OutcomeState.WRONG


@pytest.fixture
def lossy(tmp_path, store, asked):
    """Return trajectories of which one is right, one wrong, one guesses, one gives up unseen, one
    never answers and one is masked.
    """
    guess, mute = trajectory(store, 2, question=3), trajectory(store, 3, step=2, reward=0.0)
    blind = trajectory(store, 6, step=2, reward=0.0)
    guess.turns, blind.turns, mute.turns = guess.turns[-1:], blind.turns[-1:], mute.turns[:-1]
    unknown = trajectory(store, 5, step=2)
    unknown.sample["evidence_pages"], unknown.sample["evidence_boxes"] = [], {}
    masked = trajectory(store, 4, status="masked")
    given = [
        trajectory(store, 0),
        trajectory(store, 1, reward=0.0),
        guess,
        blind,
        mute,
        masked,
        unknown,
    ]
    return asked(run_folder(tmp_path / "run", given))


def test_each_loss_names_its_trajectories(lossy):
    (group,) = lossy(FUNNEL)["groups"]
    counts = {"all": 5, "sought": 3, "reach": 3, "found": 3, "shown": 3, "looked": 3, "answered": 2}
    assert group["counts"] == counts | {"kept": 2, "right": 2}
    assert (group["trajectories"], group["guessed"], group["unjudged"]) == (5, 1, 0)
    assert (group["played"], group["outcomes"]) == (6, {"right": 3, "wrong": 3, "unjudged": 0})
    assert group["branches"]["zoomed"] == {"trajectories": 3, "right": 1, "unjudged": 0}
    for stage, missing in (("sought", 6), ("answered", 3), ("right", 1)):
        rows = lossy(f"/api/runs/0/trajectories?{group['filters'][stage]}")["rows"]
        assert [row["number"] for row in rows] == [missing]
        assert group["lost_counts"][stage] == 1
    assert sum(group["lost_counts"].values()) == 3


def test_every_stage_is_the_one_before_less_those_who_left(lossy):
    """Wrong, right anyway and unjudged ones leave; what is left at the end is right with the
    evidence.
    """
    (group,) = lossy(FUNNEL)["groups"]
    assert group["with_evidence"] == 1
    assert group["right_anyway"] == dict.fromkeys(group["lost_counts"], 0) | {"sought": 1}
    stages = ["all", *group["lost_counts"]]
    reached = group["counts"] | {"right": group["with_evidence"]}
    for before, stage in pairwise(stages):
        left = sum(group[kind][stage] for kind in ("lost_counts", "right_anyway", "unjudged_at"))
        assert reached[before] - left == reached[stage]


def test_it_is_counted_apart_and_under_filters(lossy):
    by_step = {
        group["key"]: group["counts"]["all"] for group in lossy(f"{FUNNEL}?by=step")["groups"]
    }
    assert by_step == {"1": 3, "2": 2}
    assert [group["key"] for group in lossy(f"{FUNNEL}?by=kind&step=1")["groups"]] == ["Chart"]
    with pytest.raises(UserError, match="by='colour'"):
        lossy(f"{FUNNEL}?by=colour")


def test_reach_counts_where_it_is_known_of_all():
    known = [Evidence(Stage.SOUGHT, False, WRONG), Evidence(Stage.REACH, True, WRONG),
             Evidence(Stage.RIGHT, None, OutcomeState.RIGHT)]  # fmt: skip
    counts = counts_of(known)
    assert (counts["reach"], counts["found"]) == (2, 1)
    assert (lost_at(known, counts)["reach"], lost_at(known, counts)["found"]) == (1, 1)
    assert counts_of([*known, Evidence(Stage.SOUGHT, None, WRONG)])["reach"] is None


def test_answers_that_nobody_judged_are_lost_nowhere(tmp_path, store, asked):
    """Of the unjudged answers, one kept its evidence and one looked for nothing; a wrong one of
    each kind is lost where it was before.
    """
    given = [trajectory(store, number, reward=0.0) for number in range(4)]
    for each in given[:2]:
        each.outcome = UNJUDGED
    for each in given[1:3]:
        each.turns = each.turns[-1:]
    ask = asked(run_folder(tmp_path / "run", given))
    (group,) = ask(FUNNEL)["groups"]
    assert (group["counts"]["kept"], group["counts"]["right"], group["unjudged"]) == (2, 0, 2)
    lost = {stage: count for stage, count in group["lost_counts"].items() if count}
    assert lost == {"sought": 1, "right": 1}
    assert {stage: count for stage, count in group["unjudged_at"].items() if count} == lost
    assert group["outcomes"] == {"right": 0, "wrong": 2, "unjudged": 2}
    assert group["branches"]["zoomed"] == {"trajectories": 2, "right": 0, "unjudged": 1}
    for stage, number in (("sought", 2), ("right", 3)):
        rows = ask(f"/api/runs/0/trajectories?{group['filters'][stage]}")["rows"]
        assert [row["number"] for row in rows] == [number]
    rows = ask("/api/runs/0/trajectories?outcome=unjudged")["rows"]
    assert [(row["number"], row["outcome"], row["guessed"]) for row in rows] == [
        (0, "unjudged", False),
        (1, "unjudged", False),
    ]
    facets = ask("/api/runs/0/facets")["outcome"]
    assert facets == [{"value": "unjudged", "count": 2}, {"value": "wrong", "count": 2}]
    assert ask(f"/api/runs/0/trajectories/{rows[0]['id']}")["outcome"] == "unjudged"


def test_without_a_word_on_answers_losses_are_of_all(tmp_path, store, asked):
    given = [trajectory(store, number, outcome=None) for number in range(2)]
    given[1].turns = given[1].turns[-1:]
    ask = asked(run_folder(tmp_path / "run", given))
    (group,) = ask(FUNNEL)["groups"]
    assert (group["counts"]["right"], group["with_evidence"]) == (None, None)
    assert (group["lost_counts"]["sought"], group["unjudged"]) == (1, 0)
    (row,) = ask(f"/api/runs/0/trajectories?{group['filters']['sought']}")["rows"]
    assert (row["number"], row["outcome"]) == (1, None)
