import pytest

from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.rollout.evidence import Branch, Evidence, Stage, covered, evidence_of, shares
from docagent_rl.rollout.seen_pages import (
    PlayedTurn,
    SeenPage,
    answer_in,
    gold_boxes,
    gold_pages,
    records_of,
)
from tests.rollout.evidence_turns import (
    BOX,
    SIZE,
    answer,
    crop,
    search,
    shown_image,
    trajectory,
    turn,
)

SMALL = {"size": [140, 84]}


def seen_pages(given, number):
    return PlayedTurn.of(given, TurnRecord.from_dict(given["info"])).seen_pages(number)


@pytest.mark.parametrize(
    ("turns", "stage", "branch"),
    [
        ([answer()], Stage.ALL, None),
        ([search("r#1"), answer()], Stage.SOUGHT, None),
        ([search("r#1", hits=["r#1", "r#13"]), answer()], Stage.FOUND, None),
        ([search("r#13", kind="candidates"), answer()], Stage.SHOWN, None),
        ([search("r#13")], Stage.LOOKED, Branch.WHOLE),
        ([search("r#13"), answer()], Stage.RIGHT, Branch.WHOLE),
        (
            [search("r#13"), crop("r#13", [0.0, 0.0, 0.6, 0.4]), answer()],
            Stage.RIGHT,
            Branch.ZOOMED,
        ),
        # the part is shown no larger than the page was
        (
            [search("r#13"), crop("r#13", [0.0, 0.0, 0.6, 0.6], SMALL), answer()],
            Stage.RIGHT,
            Branch.WHOLE,
        ),
        ([search("r#13"), crop("r#13", [0.4, 0.0, 1.0, 0.4]), answer()], Stage.RIGHT, Branch.WHOLE),
        ([search(), crop("r#13", [0.4, 0.0, 1.0, 0.4]), answer()], Stage.SHOWN, None),
        ([search("r#13", dropped=True), answer()], Stage.FOUND, None),
    ],
)
def test_a_trajectory_comes_as_far_as_its_evidence(turns, stage, branch):
    found = evidence_of(trajectory(*turns, boxes={"13": [BOX]}))
    assert (found.stage, found.branch) == (stage, branch)


def test_pages_of_an_observation_count_where_nothing_else_tells():
    bare = turn({"kind": "look"}, {}) | {"observation": shown_image("r#13")}
    assert evidence_of(trajectory(bare, answer())).stage is Stage.RIGHT


def test_every_gold_page_counts():
    first, both = search("r#13"), search("r#13", "r#14")
    assert evidence_of(trajectory(first, answer(), gold=(13, 14))).stage is Stage.SOUGHT
    assert evidence_of(trajectory(both, answer(), gold=(13, 14))).stage is Stage.RIGHT


def test_a_thumbnail_is_not_shown():
    sheet = {
        "tiles": [{"image": {"page": "r#13", **SIZE}, "at": [0, 0]}],
        "canvas": [9, 9],
        "size": [9, 9],
    }
    prompt = [{"role": "user", "parts": [{"image": sheet}]}]
    assert evidence_of(trajectory(answer(), prompt=prompt)).stage is Stage.ALL
    assert evidence_of(trajectory(answer(), prompt=shown_image("r#13"))).stage is Stage.RIGHT


def test_what_another_row_saw_is_not_kept():
    turns = [search("r#13", row=0), search("r#2", row=1)]
    assert evidence_of(trajectory(*turns, answer(row=2))).stage is Stage.ANSWERED
    assert evidence_of(trajectory(*turns, answer(row=0))).stage is Stage.RIGHT
    # a row begins with what the turn before it brought
    assert evidence_of(trajectory(*turns, answer(row=2), gold=(2,))).stage is Stage.RIGHT


def test_whoever_answers_from_notes_keeps_what_was_read():
    read = turn({"kind": "read"}, {"kind": "read", "entries": [{"pages": ["r#13"]}]})
    end = turn({"kind": "finish"}, {"kind": "finish"}, row=1)
    end["info"]["outcome"] = {"answer": "In 1990.", "extracted": "1990", "pages": [13]}
    found = trajectory(read, end)
    assert evidence_of(found).stage is Stage.RIGHT
    assert answer_in(records_of(found)) == "1990"
    end["info"]["outcome"]["pages"] = [2]
    assert evidence_of(found).stage is Stage.ANSWERED


def test_a_query_with_the_question_s_own_words_tells_its_reach():
    asked = search("r#2", hits=["r#2", "r#13"], query="when was it OPENED")
    assert evidence_of(trajectory(asked, answer())).reach is True
    assert (
        evidence_of(trajectory(search("r#2", query="when was it opened?"), answer())).reach is False
    )
    assert evidence_of(trajectory(search("r#2"), answer())).reach is None
    seen = turn({"kind": "search"}, {}, hits=["r#13"], query="x") | {"searches": asked["searches"]}
    assert evidence_of(trajectory(seen, answer(), gold=(13, 14))).stage is Stage.SOUGHT


@pytest.mark.parametrize(
    "change", [{"status": "masked"}, {"sample": {"doc_id": "r", "evidence_pages": []}}]
)
def test_without_evidence_or_play_there_is_no_stage(change):
    assert evidence_of({**trajectory(answer()), **change}).stage is None


@pytest.mark.parametrize(
    "effect", [{"pages": 3}, {"kind": "crop", "page": None, "size": ["a", "b"]}, [], "x"]
)
def test_what_an_environment_samples_otherwise_stops_nothing(effect):
    found = evidence_of(trajectory(turn({"kind": "own"}, effect), answer()))
    assert found.stage in (None, Stage.ALL)


def test_boxes_of_further_documents_count_like_those_of_the_question_s_own():
    near, far = crop("s#2", [0.0, 0.0, 0.6, 0.4]), crop("s#2", [0.4, 0.0, 1.0, 0.4])
    for look, branch in ((near, Branch.ZOOMED), (far, Branch.WHOLE)):
        given = trajectory(search("s#2"), look, answer())
        given["sample"]["extra"] = {
            "page_ids": ["s#2"],
            "other_boxes": {"s#2": [BOX], "s": [BOX], "s#3": 1},
        }
        assert evidence_of(given).branch is branch
    assert gold_boxes(given["sample"]) == {"s#2": [tuple(BOX)]}
    assert gold_pages({"extra": {"page_ids": ["r#1", "s#2"]}}) == {"r#1", "s#2"}


def test_coverage_is_of_the_box():
    assert covered(BOX, [(0.1, 0.1, 0.3, 0.3)]) == pytest.approx(0.5)
    assert covered(BOX, [(0.6, 0.6, 0.9, 0.9)]) == 0
    assert covered([0.2, 0.2, 0.2, 0.2], [(0, 0, 1, 1)]) == 0


def test_shares_are_of_the_trajectories_with_known_evidence():
    found = [
        Evidence(Stage.RIGHT, None, OutcomeState.RIGHT, Branch.WHOLE),
        Evidence(Stage.ALL, None, OutcomeState.RIGHT),
        Evidence(None, None, OutcomeState.RIGHT),
    ]
    halves = (
        "sought",
        "reach",
        "found",
        "shown",
        "looked",
        "answered",
        "kept",
        "guessed",
        "read_whole",
    )
    assert shares(found) == {
        **dict.fromkeys(halves, 0.5),
        "zoomed": 0.0,
        "as_text": 0.0,
        "right": 1.0,
        "unjudged": 0.0,
    }
    known = [
        Evidence(Stage.RIGHT, None, OutcomeState.RIGHT),
        Evidence(Stage.ALL, False, OutcomeState.WRONG),
    ]
    assert shares(known)["reach"] == 0.5
    assert shares([]) == {}


@pytest.mark.parametrize(
    "turns", [[search("r#13"), answer()], [search("r#1"), answer()], [answer()]]
)
@pytest.mark.parametrize("outcome", [*OutcomeState, None])
def test_an_unjudged_answer_is_neither_right_nor_wrong(turns, outcome):
    found = evidence_of(trajectory(*turns, outcome=outcome))
    assert found.outcome is outcome
    assert (found.right, found.unjudged) == (
        outcome is OutcomeState.RIGHT,
        outcome is OutcomeState.UNJUDGED,
    )
    assert found.reached(Stage.RIGHT) is (
        None if outcome is None else outcome is OutcomeState.RIGHT
    )
    assert (found.stage is Stage.RIGHT) is (
        found.right and len(turns) == 2 and found.branch is Branch.WHOLE
    )
    assert found.guessed is (found.right and found.branch is None)


def test_shares_of_outcomes_are_of_all_and_there_where_all_are_known():
    found = [Evidence(Stage.KEPT, None, state) for state in (*OutcomeState, OutcomeState.UNJUDGED)]
    assert (shares(found)["right"], shares(found)["unjudged"], shares(found)["kept"]) == (
        0.25,
        0.5,
        1.0,
    )
    silent = shares([*found, Evidence(Stage.KEPT, None, None)])
    assert not {"right", "unjudged"} & silent.keys()


def test_a_wrong_answer_with_the_evidence_kept_is_lost_at_the_last_stage():
    kept = evidence_of(trajectory(search("r#13"), answer(), outcome=OutcomeState.WRONG))
    assert (kept.stage, kept.right, kept.guessed) == (Stage.KEPT, False, False)
    assert [
        kept.reached(stage) for stage in (Stage.ALL, Stage.LOOKED, Stage.KEPT, Stage.RIGHT)
    ] == [
        True,
        True,
        True,
        False,
    ]
    unknown = evidence_of(trajectory(search("r#13"), answer(), outcome=None))
    assert (unknown.stage, unknown.reached(Stage.RIGHT), unknown.guessed) == (
        Stage.KEPT,
        None,
        False,
    )


def test_a_guess_is_right_before_the_evidence_was_shown():
    found = evidence_of(trajectory(search("r#1", hits=["r#13"]), answer()))
    assert (found.stage, found.right, found.guessed) == (Stage.FOUND, True, True)
    assert not evidence_of(trajectory(search("r#1"), answer(), outcome=OutcomeState.WRONG)).guessed
    assert not Evidence(None, None, OutcomeState.RIGHT).guessed
    assert [
        Evidence(None, None, OutcomeState.RIGHT).reached(stage)
        for stage in (Stage.ALL, Stage.RIGHT)
    ] == [None, None]


def test_the_reach_of_a_question_is_known_where_it_was_asked_or_passed():
    sought = Evidence(Stage.SOUGHT, None, OutcomeState.WRONG)
    assert sought.reached(Stage.REACH) is None
    assert sought.reached(Stage.FOUND) is False
    assert Evidence(Stage.SOUGHT, False, OutcomeState.WRONG).reached(Stage.REACH) is False
    assert Evidence(Stage.ALL, None, OutcomeState.WRONG).reached(Stage.REACH) is False
    assert Evidence(Stage.FOUND, None, OutcomeState.WRONG).reached(Stage.REACH) is True


def test_the_question_asked_itself_reaches_its_pages_with_one_search():
    question = "When was it opened?"
    halves = [search("r#2", hits=[page], query=question) for page in ("r#13", "r#14")]
    apart = evidence_of(trajectory(*halves, answer(), gold=(13, 14)))
    assert (apart.reach, apart.stage) == (False, Stage.FOUND)
    whole = search("r#2", hits=["r#14", "r#13"], query=question)
    assert evidence_of(trajectory(halves[0], whole, answer(), gold=(13, 14))).reach is True


@pytest.mark.parametrize(
    ("region", "size", "branch"),
    [
        ([0.0, 0.0, 0.25, 0.25], [280, 168], Branch.ZOOMED),  # half of the box
        ([0.0, 0.0, 0.24, 0.25], [280, 168], Branch.WHOLE),  # less than that
        ([0.0, 0.0, 0.5, 0.5], [140, 84], Branch.WHOLE),  # no larger than on the page
        ([0.0, 0.0, 0.5, 0.5], [141, 84], Branch.ZOOMED),
        ([0.0, 0.0, 1.0, 1.0], [999, 999], Branch.WHOLE),  # the whole page, larger
    ],
)
def test_a_crop_zooms_where_it_holds_half_of_each_box_and_is_larger(region, size, branch):
    turns = [search("r#13"), crop("r#13", region, {"size": size}), answer()]
    assert evidence_of(trajectory(*turns, boxes={"13": [[0.0, 0.0, 0.5, 0.25]]})).branch is branch


def test_a_crop_alone_shows_what_it_holds():
    for region, stage in (([0.0, 0.0, 0.6, 0.4], Stage.RIGHT), ([0.5, 0.5, 1.0, 1.0], Stage.SHOWN)):
        found = evidence_of(trajectory(crop("r#13", region), answer(), boxes={"13": [BOX]}))
        assert found.stage is stage
    # without boxes any part will do
    found = evidence_of(trajectory(crop("r#13", [0.5, 0.5, 1.0, 1.0]), answer()))
    assert (found.stage, found.branch) == (Stage.RIGHT, Branch.ZOOMED)


def test_several_regions_are_one_look():
    stacked = crop("r#13", None)
    stacked["info"]["effect"] |= {"regions": [[0.0, 0.0, 0.5, 0.25], [0.1, 0.1, 0.5, 0.3]]}
    (page,) = seen_pages(stacked, 3)
    assert page == SeenPage("r#13", 3, ((0.0, 0.0, 0.5, 0.25), (0.1, 0.1, 0.5, 0.3)), 280 * 168)
    boxes = {"13": [BOX, [0.0, 0.0, 0.1, 0.1]]}
    assert (
        evidence_of(trajectory(search("r#13"), stacked, answer(), boxes=boxes)).branch
        is Branch.ZOOMED
    )
    far = {"13": [BOX, [0.8, 0.8, 0.9, 0.9]]}  # every box has to be covered
    assert (
        evidence_of(trajectory(search("r#13"), stacked, answer(), boxes=far)).branch is Branch.WHOLE
    )


def test_pages_that_were_read_by_somebody_else_are_read_as_text():
    read = turn({"kind": "read"}, {"kind": "read", "entries": [{"pages": ["r#13"]}]})
    assert evidence_of(trajectory(read, answer())).branch is Branch.TEXT
    both = evidence_of(trajectory(read, search("r#13"), answer()))
    assert both.branch is Branch.WHOLE
