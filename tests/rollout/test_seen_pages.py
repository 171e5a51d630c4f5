"""Facts that are read from a recorded trajectory: pages that were found and seen, boxes, the last
answer.
"""

import pytest

from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.rollout.seen_pages import (
    PlayedTurn,
    SeenPage,
    answer_in,
    answers_of,
    gold_boxes,
    gold_pages,
    records_of,
)
from tests.rollout.evidence_turns import BOX, SIZE, search, shown_image, turn


def seen_pages(given, number):
    return PlayedTurn.of(given, TurnRecord.from_dict(given["info"])).seen_pages(number)


def found(given):
    return PlayedTurn.of(given, TurnRecord.from_dict(given.get("info"))).found


def test_found_pages_are_hits_of_searches_and_of_effects():
    listed = search("r#1", hits=["r#2", "r#3"])
    assert found(listed) == ("r#2", "r#3")
    hits = [{"page": "r#4"}, {"page": 5}, {"page": "r"}, "r#6"]
    for kind in ("hits", "a system's own"):
        listed["info"]["effect"] = {"kind": kind, "hits": hits}
        assert found(listed) == ("r#2", "r#3", "r#4")
    listed["info"]["effect"]["hits"] = 3
    assert found(listed) == ("r#2", "r#3")
    assert found({}) == ()


def test_boxes_of_evidence_are_those_that_are_boxes():
    sample = {"doc_id": "r", "evidence_boxes": {"1": [BOX, [1, 2]], "0": [BOX], "2": 7, "3": []}}
    assert gold_boxes(sample) == {"r#1": [tuple(BOX)], "r#3": []}
    assert gold_boxes({"doc_id": "r"}) == {}
    # the question's own boxes count before others of its pages
    sample["extra"] = {"other_boxes": {"r#1": [[0, 0, 1, 1]], "s#1": [BOX]}}
    assert gold_boxes(sample) == {"r#1": [tuple(BOX)], "r#3": [], "s#1": [tuple(BOX)]}


def test_pages_of_evidence_are_named_with_their_document():
    windowed = {"doc_id": "r", "evidence_pages": [1, 2], "extra": {"window": [2, 4]}}
    assert gold_pages(windowed) == {"r#2"}
    windowed["extra"]["page_ids"] = ["r#1", "r#3", "s#9"]
    assert gold_pages(windowed) == {"r#3", "s#9"}
    assert gold_pages({"doc_id": "r", "evidence_pages": [1, 2]}) == {"r#1", "r#2"}
    assert (
        gold_pages({"doc_id": "r", "evidence_pages": [1], "extra": {"page_ids": []}}) == frozenset()
    )
    assert (
        gold_pages({"doc_id": "r", "evidence_pages": None, "extra": {"page_ids": None}})
        == frozenset()
    )


@pytest.mark.parametrize(
    ("infos", "expected"),
    [
        ([], (None, None)),
        ([{"action": {"kind": "answer", "text": "a"}, "executed": True}], ("a", None)),
        ([{"action": {"kind": "answer", "text": "a"}, "executed": False}], (None, None)),
        ([{"action": {"kind": "answer", "text": " "}, "executed": True}], (None, None)),
        ([{"action": {"kind": "search", "text": "a"}, "executed": True}], (None, None)),
        ([{"outcome": {"answer": "long", "extracted": "short"}}], ("long", "short")),
        ([{"outcome": {"answer": "long", "extracted": 7}}], ("long", None)),
        ([{"outcome": {"answer": " ", "extracted": "short"}}], (None, None)),
        # the last one counts
        (
            [{"action": {"kind": "answer", "text": text}, "executed": True} for text in "ab"],
            ("b", None),
        ),
        ([{"outcome": {"answer": "first"}}, None, "x"], ("first", None)),
    ],
)
def test_the_last_answer_counts(infos, expected):
    assert answers_of(map(TurnRecord.from_dict, infos)) == expected
    answer, short = expected
    assert answer_in(records_of({"turns": [{"info": info} for info in infos]})) == (
        answer if short is None else short
    )


def test_looks_are_views_texts_and_candidates():
    texts = turn(
        {"kind": "search"}, {"kind": "pages", "pages": [{"page": "r#1", "form": "text", **SIZE}]}
    )
    assert list(seen_pages(texts, 0)) == [SeenPage("r#1", 0)]
    several = search("r#1", "r#2", kind="candidates")
    assert [(each.page, each.candidate) for each in seen_pages(several, 1)] == [
        ("r#1", True),
        ("r#2", True),
    ]
    entries = {"kind": "read", "entries": [{"pages": ["r#1", "r#2"]}, {}, "x"]}
    assert list(seen_pages(turn({"kind": "read"}, entries), 2)) == [
        SeenPage("r#1", 2),
        SeenPage("r#2", 2),
    ]
    bare = turn({"kind": "look"}, {}) | {"observation": shown_image("r#9")}
    assert list(seen_pages(bare, 4)) == [SeenPage("r#9", 4, (), 280 * 168)]
    # the observation is not asked where the effect tells
    assert list(seen_pages(texts | {"observation": shown_image("r#9")}, 0)) == [SeenPage("r#1", 0)]
