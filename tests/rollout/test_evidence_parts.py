"""Parts of evidence: shares, what was kept, seen, rows of contexts."""

import pytest

from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.rollout.evidence import Branch, Evidence, Stage, covered, evidence_of, shares
from tests.rollout.evidence_turns import SIZE, answer, crop, search, shown_image, trajectory, turn


def test_without_an_answer_nothing_was_kept():
    end = turn({"kind": "finish"}, {"kind": "finish"})
    end["info"]["outcome"] = {"answer": "", "pages": [13]}
    assert evidence_of(trajectory(search("r#13"), end)).stage is Stage.LOOKED
    blank = evidence_of(trajectory(search("r#13"), answer("  ")))
    assert blank.stage is Stage.LOOKED
    # an answer without the evidence is no stage
    early = evidence_of(trajectory(search("r#1"), answer(), outcome=OutcomeState.WRONG))
    assert (early.stage, early.reached(Stage.ANSWERED)) == (Stage.SOUGHT, False)


def test_shares_of_the_last_stage_are_of_judged_answers():
    zoomed = Evidence(Stage.KEPT, True, OutcomeState.WRONG, Branch.ZOOMED)
    judged = [zoomed, Evidence(Stage.RIGHT, True, OutcomeState.RIGHT, Branch.TEXT)]
    found = shares(judged)
    assert (found["kept"], found["right"], found["zoomed"], found["as_text"]) == (
        1.0,
        0.5,
        0.5,
        0.5,
    )
    assert "all" not in found
    unjudged = shares([*judged, Evidence(Stage.KEPT, True, None, Branch.WHOLE)])
    assert "right" not in unjudged
    assert unjudged["read_whole"] == pytest.approx(1 / 3)


def test_a_record_of_another_form_is_not_known():
    broken = trajectory(search("r#13"), answer())
    del broken["turns"][0]["searches"][0]["hits"]
    assert evidence_of(broken) == Evidence(None, None, None)


def test_a_search_without_hits_and_a_page_without_a_search_are_sought():
    asked = turn({"kind": "search"}, {"kind": "no_new_page"}, hits=["r#1"])
    asked["searches"][0]["hits"] = []
    assert evidence_of(trajectory(asked, answer())).stage is Stage.SOUGHT
    opened = turn({"kind": "fetch"}, {"kind": "pages", "pages": [{"page": "r#1", **SIZE}]})
    assert evidence_of(trajectory(opened, answer())).stage is Stage.SOUGHT


def test_a_page_of_the_prompt_is_whole_and_stays_in_its_row():
    prompt = [*shown_image("r#13"), {"role": "user", "parts": [{"text": "x"}, {"image": {**SIZE}}]}]
    found = evidence_of(trajectory(search("r#1"), answer(), prompt=prompt))
    assert (found.stage, found.branch) == (Stage.RIGHT, Branch.WHOLE)
    later = evidence_of(
        trajectory(search("r#1"), search("r#2", row=1), answer(row=1), prompt=prompt)
    )
    assert later.stage is Stage.ANSWERED


def test_what_was_dropped_or_only_a_candidate_may_be_shown_later():
    dropped = evidence_of(trajectory(search("r#13", dropped=True), search("r#13"), answer()))
    assert dropped.stage is Stage.RIGHT
    chosen = evidence_of(
        trajectory(search("r#1", "r#13", kind="candidates"), search("r#13"), answer())
    )
    assert (chosen.stage, chosen.branch) == (Stage.RIGHT, Branch.WHOLE)


@pytest.mark.parametrize(
    ("region", "share"),
    [
        ((0.0, 0.0, 1.0, 1.0), 1.0),
        ((0.0, 0.375, 1.0, 1.0), 0.5),  # the lower half
        ((0.0, 0.0, 1.0, 0.375), 0.5),  # the upper half
        ((0.375, 0.0, 1.0, 1.0), 0.5),
        ((0.0, 0.0, 0.375, 1.0), 0.5),
        ((0.0, 0.5, 1.0, 1.0), 0.0),  # beside it, on every side
        ((0.0, 0.0, 1.0, 0.25), 0.0),
        ((0.5, 0.0, 1.0, 1.0), 0.0),
        ((0.0, 0.0, 0.25, 1.0), 0.0),
        ((0.0, 0.75, 1.0, 1.0), 0.0),
    ],
)
def test_the_share_of_a_box_in_a_region(region, share):
    box = (0.25, 0.25, 0.5, 0.5)
    assert covered(box, [region]) == share
    assert covered(box, [(0.0, 0.0, 0.1, 0.1), region]) == share
    assert covered(box, []) == 0.0


@pytest.mark.parametrize(
    ("region", "share"),
    [
        # x from .1 to .3 and y from .5 to .9, of an area of .4 by .6
        ((0.0, 0.5, 0.3, 1.0), 1 / 3),
        # x from .2 to .5 and y from .3 to .4
        ((0.2, 0.0, 0.9, 0.4), 1 / 8),
    ],
)
def test_the_share_of_a_box_that_is_no_square(region, share):
    assert covered((0.1, 0.3, 0.5, 0.9), [region]) == pytest.approx(share)


@pytest.mark.parametrize(
    "box", [(0.5, 0.25, 0.25, 0.5), (0.25, 0.5, 0.5, 0.25), (0.5, 0.5, 0.25, 0.25)]
)
def test_a_box_without_an_area_is_not_covered(box):
    assert covered(box, [(0.0, 0.0, 1.0, 1.0)]) == 0.0


def test_the_size_of_a_crop_is_that_of_its_own_part():
    """A quarter of the page, wherever it lies, has to be larger than a quarter of the page's
    pixels.
    """
    for size, branch in (([141, 84], Branch.ZOOMED), ([140, 84], Branch.WHOLE)):
        turns = [search("r#13"), crop("r#13", [0.5, 0.5, 1.0, 1.0], {"size": size}), answer()]
        boxes = {"13": [[0.5, 0.5, 0.75, 0.75]]}
        assert evidence_of(trajectory(*turns, boxes=boxes)).branch is branch


def test_turns_without_a_row_are_of_the_first():
    turns = [search("r#13"), answer()]
    for each in turns:
        del each["row"]
    assert evidence_of(trajectory(*turns)).stage is Stage.RIGHT
    del (later := search("r#13"))["row"]
    assert evidence_of(trajectory(later, answer(row=0))).stage is Stage.RIGHT
