import pytest

from docagent_rl.envs.outcome import OutcomeState
from docagent_rl.rollout.evidence import (
    Branch,
    Evidence,
    Stage,
    answer_of,
    covered,
    evidence_of,
    gold_boxes,
    gold_pages,
    shares,
)

BOX = [0.1, 0.1, 0.5, 0.3]
SIZE = {"size": [280, 168]}


def turn(action, effect, *, hits=(), query="x", row=0, dropped=False):
    """One as it is written: what was asked, what it led to, what a search returned."""
    known = {"retriever": "retriever", "seconds": 0.1, "tries": 1}
    searches = [{**known, "query": query, "hits": [[page, 1.0] for page in hits]}] if hits else []
    info = {"action": action, "effect": effect, "valid": True, "executed": True}
    return {"info": info, "searches": searches, "row": row, "dropped": dropped}


def search(*pages, hits=None, size=SIZE, kind="pages", **more):
    shown = [{"page": page, **size} for page in pages]
    effect = {"kind": kind, "pages": shown}
    return turn({"kind": "search"}, effect, hits=pages if hits is None else hits, **more)


def crop(page, region, size=SIZE):
    return turn({"kind": "crop"}, {"kind": "crop", "page": page, "region": region, **size})


def shown_image(page):
    return [{"role": "user", "parts": [{"image": {"page": page, **SIZE}}]}]


def answer(text="1990", **more):
    return turn({"kind": "answer", "text": text}, {"kind": "answer"}, **more)


def trajectory(*turns, outcome=OutcomeState.RIGHT, gold=(13,), boxes=None, **more):
    sample = {"doc_id": "r", "question": "When was it opened?", "evidence_pages": list(gold)}
    sample["evidence_boxes"] = boxes or {}
    given = {"sample": sample, "status": "finished", "prompt": []}
    given["outcome"] = outcome and {"state": outcome.value, "score": None}
    return {**given, "turns": list(turns), **more}


SMALL = {"size": [140, 84]}


@pytest.mark.parametrize(
    ("turns", "stage", "branch"),
    [
        ([answer()], Stage.ALL, None),
        ([search("r#1"), answer()], Stage.SOUGHT, None),
        ([search("r#1", hits=["r#1", "r#13"]), answer()], Stage.FOUND, None),
        ([search("r#13", kind="candidates"), answer()], Stage.SHOWN, None),
        ([search("r#13")], Stage.LOOKED, Branch.WHOLE),
        ([search("r#13"), answer()], Stage.RIGHT, Branch.WHOLE),
        ([search("r#13"), crop("r#13", [0.0, 0.0, 0.6, 0.4]), answer()], Stage.RIGHT, Branch.ZOOMED),
        # the part is shown no larger than the page was
        ([search("r#13"), crop("r#13", [0.0, 0.0, 0.6, 0.6], SMALL), answer()], Stage.RIGHT, Branch.WHOLE),
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
    sheet = {"tiles": [{"image": {"page": "r#13", **SIZE}, "at": [0, 0]}], "canvas": [9, 9], "size": [9, 9]}
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
    assert answer_of(found) == "1990"
    end["info"]["outcome"]["pages"] = [2]
    assert evidence_of(found).stage is Stage.ANSWERED


def test_a_query_with_the_question_s_own_words_tells_its_reach():
    asked = search("r#2", hits=["r#2", "r#13"], query="when was it OPENED")
    assert evidence_of(trajectory(asked, answer())).reach is True
    assert evidence_of(trajectory(search("r#2", query="when was it opened?"), answer())).reach is False
    assert evidence_of(trajectory(search("r#2"), answer())).reach is None
    seen = turn({"kind": "search"}, {}, hits=["r#13"], query="x") | {"searches": asked["searches"]}
    assert evidence_of(trajectory(seen, answer(), gold=(13, 14))).stage is Stage.SOUGHT


@pytest.mark.parametrize("change", [{"status": "masked"}, {"sample": {"doc_id": "r", "evidence_pages": []}}])
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
        given["sample"]["extra"] = {"page_ids": ["s#2"], "other_boxes": {"s#2": [BOX], "s": [BOX], "s#3": 1}}
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
    halves = ("sought", "reach", "found", "shown", "looked", "answered", "kept", "guessed", "read_whole")
    assert shares(found) == {
        **dict.fromkeys(halves, 0.5),
        "zoomed": 0.0,
        "as_text": 0.0,
        "right": 1.0,
        "unjudged": 0.0,
    }
    known = [Evidence(Stage.RIGHT, None, OutcomeState.RIGHT), Evidence(Stage.ALL, False, OutcomeState.WRONG)]
    assert shares(known)["reach"] == 0.5
    assert shares([]) == {}


@pytest.mark.parametrize("turns", [[search("r#13"), answer()], [search("r#1"), answer()], [answer()]])
@pytest.mark.parametrize("outcome", [*OutcomeState, None])
def test_an_unjudged_answer_is_neither_right_nor_wrong(turns, outcome):
    found = evidence_of(trajectory(*turns, outcome=outcome))
    assert found.outcome is outcome
    assert (found.right, found.unjudged) == (outcome is OutcomeState.RIGHT, outcome is OutcomeState.UNJUDGED)
    assert found.reached(Stage.RIGHT) is (None if outcome is None else outcome is OutcomeState.RIGHT)
    assert (found.stage is Stage.RIGHT) is (found.right and len(turns) == 2 and found.branch is Branch.WHOLE)
    assert found.guessed is (found.right and found.branch is None)


def test_shares_of_outcomes_are_of_all_and_there_where_all_are_known():
    found = [Evidence(Stage.KEPT, None, state) for state in (*OutcomeState, OutcomeState.UNJUDGED)]
    assert (shares(found)["right"], shares(found)["unjudged"], shares(found)["kept"]) == (0.25, 0.5, 1.0)
    silent = shares([*found, Evidence(Stage.KEPT, None, None)])
    assert not {"right", "unjudged"} & silent.keys()
