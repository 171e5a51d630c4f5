"""Effects of actions, in environments and in files."""

import json

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.envs.effect_reading import read_effect
from docagent_rl.envs.effects import (
    NO_EFFECT,
    Answered,
    Candidates,
    Effect,
    EntriesRead,
    Hits,
    Magnified,
    NoHit,
    NoNewPage,
    Nothing,
    NothingShown,
    OwnEffect,
    PagesShown,
    Selected,
)
from docagent_rl.envs.shown_page import WHOLE, EntryRecord, NamedPage, ShownPage

FIRST, SECOND = PageRef("r", 1), PageRef("r", 2)
WHOLE_PAGE = ShownPage(
    FIRST,
    size=(280, 168),
    regions=(WHOLE,),
    rasters=((0, 0, 1000, 600),),
    encoder_size=(280, 168),
    tokens=60,
    rank=1,
    score=2.5,
    gold=True,
    own={"number": 1},
)
PART = ShownPage(
    SECOND, size=(90, 50), regions=((0.1, 0.2, 0.5, 0.6),), rasters=((10, 20, 50, 60),)
)
STACK = ShownPage(
    SECOND,
    size=(90, 100),
    regions=((0.0, 0.0, 0.5, 0.1), (0.1, 0.2, 0.5, 0.6)),
    rasters=((0, 0, 50, 10), (10, 20, 50, 60)),
    canvas=(50, 50),
)
TEXT = ShownPage(SECOND, rank=2, own={"form": "text"})
NAMED = NamedPage(FIRST, rank=1, score=0.5, read=True, gold=False)
ENTRY = EntryRecord((FIRST, SECOND), "why", (True, False), cached=True)
EFFECTS = [
    NO_EFFECT,
    *map(NothingShown, Nothing),
    PagesShown((WHOLE_PAGE, TEXT), 5, own={"withheld": [3]}),
    PagesShown(()),
    Candidates((WHOLE_PAGE,), 1),
    NoNewPage(3),
    NoNewPage(),
    Magnified(PART, own={"scored": []}),
    Magnified(STACK),
    Selected(PART, 2, fallback=True),
    Hits((NAMED, NamedPage(SECOND))),
    NoHit(),
    EntriesRead((ENTRY, EntryRecord(())), ("too many",)),
    Answered(),
    Answered(judged=False, pages=(TEXT,)),
    OwnEffect(
        "looked", pages=(WHOLE_PAGE,), view=PART, entries=(ENTRY,), hits=(NAMED,), own={"x": [1]}
    ),
]


@pytest.mark.parametrize("effect", EFFECTS, ids=lambda effect: effect.kind)
def test_what_is_written_is_read_again(effect):
    written = effect.to_dict()
    assert read_effect(json.loads(json.dumps(written))) == effect
    assert json.loads(json.dumps(written)) == written


def test_a_file_has_kind_fields_and_what_the_system_adds():
    assert NO_EFFECT.to_dict() == {}
    assert NothingShown(Nothing.FEEDBACK).to_dict() == {"kind": "feedback"}
    assert Answered(judged=True).to_dict() == {"kind": "answer", "judged": True}
    assert Hits((NAMED,)).to_dict() == {
        "kind": "hits",
        "hits": [{"page": "r#1", "rank": 1, "score": 0.5, "read": True, "gold": False}],
    }
    assert EntriesRead((ENTRY,)).to_dict() == {
        "kind": "read",
        "entries": [
            {"pages": ["r#1", "r#2"], "query": "why", "gold": [True, False], "cached": True}
        ],
        "remarks": [],
    }
    assert PagesShown((TEXT,), 5, own={"withheld": [3]}).to_dict() == {
        "kind": "pages",
        "hits": 5,
        "pages": [{"page": "r#2", "rank": 2, "form": "text"}],
        "withheld": [3],
    }


def test_one_part_of_a_page_has_a_region_and_a_stack_has_several():
    assert Magnified(PART).to_dict() == {
        "kind": "crop",
        "page": "r#2",
        "raster": [10, 20, 50, 60],
        "region": [0.1, 0.2, 0.5, 0.6],
        "size": [90, 50],
    }
    stacked = STACK.to_dict()
    assert (len(stacked["regions"]), len(stacked["rasters"]), stacked["canvas"]) == (2, 2, [50, 50])
    assert not {"region", "raster"} & stacked.keys()
    assert (WHOLE_PAGE.parts, PART.parts, len(STACK.parts), TEXT.parts) == ((), PART.regions, 2, ())


def test_who_looks_at_any_system_asks_for_pages():
    brought = {
        effect.kind: [shown.page for shown in effect.brought]
        for effect in EFFECTS
        if effect.brought
    }
    assert brought == {
        "pages": [FIRST, SECOND], "candidates": [FIRST], "answer": [SECOND], "looked": [FIRST],
    }  # fmt: skip
    views = {effect.kind: len(effect.views) for effect in EFFECTS if effect.views != effect.brought}
    assert views == {"crop": 1, "selection": 1, "looked": 2}
    assert {effect.kind: effect.found for effect in EFFECTS if effect.found} == {
        "hits": (FIRST, SECOND), "looked": (FIRST,),
    }  # fmt: skip
    assert {effect.kind: effect.read for effect in EFFECTS if effect.read} == {
        "read": (FIRST, SECOND), "looked": (FIRST, SECOND),
    }  # fmt: skip


@pytest.mark.parametrize("data", [None, [], "x", 3, {}])
def test_without_an_effect_there_is_none(data):
    assert read_effect(data) is NO_EFFECT


@pytest.mark.parametrize(
    ("data", "effect"),
    [
        ({"kind": "pages", "pages": 3, "hits": "two"}, PagesShown(())),
        ({"kind": "pages", "pages": ["r#1", {"page": "r"}, {"page": 5}, {}]}, PagesShown(())),
        ({"kind": "pages", "pages": [{"page": "r#1", "size": ["a", 2], "score": "x", "gold": 1}]},
         PagesShown((ShownPage(FIRST),))),
        # what a kind cannot do without
        ({"kind": "crop", "page": 5, "size": [1, 2]}, OwnEffect("crop", own={"page": 5, "size": [1,
        2]})),
        ({"kind": "selection", "index": 1}, OwnEffect("selection", own={"index": 1})),
        ({"kind": 7, "page": "r#1"}, OwnEffect("", view=ShownPage(FIRST))),
        ({"kind": "read", "entries": [{"pages": ["r#1", 2]}, {}, "x"]},
         EntriesRead((EntryRecord((FIRST,)), EntryRecord(()), EntryRecord(())))),
        ({"kind": "hits", "hits": [{"page": "r#1", "rank": True}, 5]}, Hits((NamedPage(FIRST),))),
    ],
)  # fmt: skip
def test_what_is_no_page_and_no_number_is_left_out(data, effect):
    assert read_effect(data) == effect


class Folded(Effect):
    """The effect of a user's system."""

    KIND = "folded"

    def fields(self):
        return {"creases": 3, "by": None}


def test_a_system_may_have_effects_of_its_own():
    assert Folded().to_dict() == {"kind": "folded", "creases": 3}
    assert read_effect(Folded().to_dict()) == OwnEffect("folded", own={"creases": 3})
