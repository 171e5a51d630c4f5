"""The record of a turn, written and read again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.actions.base import Answer, Crop, Finish
from docagent_rl.documents import PageRef
from docagent_rl.envs.effects import PagesShown
from docagent_rl.envs.shown_page import ShownPage
from docagent_rl.envs.turn_record import NO_RECORD, ActionRecord, TurnRecord, WrittenAnswer

FULL = TurnRecord(
    turn=2,
    action=ActionRecord("answer", (3, 20), (5, 9), {"text": "blue"}),
    valid=False,
    reason="bad_argument",
    detail="the box is empty",
    executed=True,
    effect=PagesShown((ShownPage(PageRef("r", 1)),)),
    surplus=(ActionRecord("finish"),),
    thoughts=((0, 2),),
    notes=((3, 5), (6, 7)),
    seconds={"search": 0.5},
    faults=("fetch_pages",),
    relevant_pages=(3, 1),
    text="what is compared",
    written=WrittenAnswer("long", "short", (3, 1)),
    own={"history": {"action": "x"}},
)


@pytest.mark.parametrize(
    "record", [FULL, TurnRecord(turn=1), TurnRecord(faults=(), relevant_pages=())]
)
def test_what_is_written_is_read_again(record):
    written = record.to_dict()
    assert json.loads(json.dumps(written)) == written
    assert TurnRecord.from_dict(written) == record


def test_a_file_has_the_keys_of_a_system_where_it_has_them():
    plain = TurnRecord(turn=1).to_dict()
    assert plain == {
        "turn": 1, "action": {"kind": "", "block": None, "argument": None}, "valid": True,
        "reason": None,
        "detail": None, "executed": False, "effect": {}, "surplus": [], "thoughts": [], "notes": [],
        "seconds": {},
    }  # fmt: skip
    more = {"faults", "relevant_pages", "text", "outcome", "history"}
    assert FULL.to_dict().keys() - plain.keys() == more
    assert FULL.to_dict()["outcome"] == {"answer": "long", "extracted": "short", "pages": [3, 1]}


def test_the_record_of_an_action_has_its_arguments():
    crop = ActionRecord.of(Crop((10, 20), (12, 18), ((1.0, 2.0, 3.0, 4.0),)))
    assert crop == ActionRecord("crop", (10, 20), (12, 18), {"boxes": [[1.0, 2.0, 3.0, 4.0]]})
    assert (crop.text, ActionRecord.of(Answer((0, 1), (0, 1), " ")).text) == (None, " ")
    finish = ActionRecord.of(Finish(None, None))
    assert finish.to_dict() == {"kind": "finish", "block": None, "argument": None}


@pytest.mark.parametrize("data", [None, {}, [], "x", 7])
def test_a_turn_without_a_record_is_valid_and_was_not_executed(data):
    assert TurnRecord.from_dict(data) is NO_RECORD
    assert (NO_RECORD.valid, NO_RECORD.executed, NO_RECORD.faults) == (True, False, None)


def test_what_is_of_another_type_is_left_out():
    found = TurnRecord.from_dict(
        {
            "turn": "x", "action": [1], "valid": None, "reason": 3, "executed": 1, "effect": 5,
            "thoughts": [[1, 2], [1], "x", [0.5, 1]], "notes": 3,
            "seconds": {"a": "x", "b": 2},
            "surplus": "ab", "faults": "no list", "relevant_pages": [True, "3", None, 4], "text": 7,
            "outcome": "text",
        }
    )  # fmt: skip
    assert found == TurnRecord(
        thoughts=((1, 2),), seconds={"b": 2}, relevant_pages=(4,), written=WrittenAnswer("")
    )


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4)
    | st.sampled_from(["r#1", "pages", "crop", "answer", "hits", "selection", "read"]),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(
        st.sampled_from(["kind", "page", "pages", "hits", "entries", "size", "region", "regions",
        "text"]),
        inner,
        max_size=5,
    ),
    max_leaves=12,
)  # fmt: skip
KEYS = st.sampled_from([*FULL.to_dict(), "other"])


@given(st.dictionaries(KEYS, VALUES, max_size=8))
def test_whatever_a_file_holds_is_read(data):
    written = TurnRecord.from_dict(data).to_dict()
    # no mistake is made worse by writing it again
    assert TurnRecord.from_dict(written).to_dict() == written
