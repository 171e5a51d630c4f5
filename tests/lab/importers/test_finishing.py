"""From a draft to a sample: what is kept, repaired and refused."""

import dataclasses
import math
from pathlib import Path

import pytest

from docagent_rl.documents.references import Rotation
from docagent_rl.lab.importers.finishing import (
    CLAMPED,
    DROPPED,
    LENGTH,
    OUTSIDE,
    WINDOW,
    finish_sample,
    normalised,
)
from docagent_rl.lab.importers.holdings import Holdings
from docagent_rl.lab.importers.native import ImportedQuestion, NativeRow, Skip
from docagent_rl.samples.sample import Sample, Split

HOLDINGS = Holdings(
    lengths={"d": 5, "e": 3},
    digests={"d": "0" * 64},
    sizes={"d": ((100.0, 200.0), (400.0, 500.0))},
)


def draft(**changes: object) -> ImportedQuestion:
    row = NativeRow(Path("file.json"), 7, {}, "any", Split.TRAIN)
    made = ImportedQuestion(row, "q", Split.TRAIN, "d", "What?", ("41",), "41", native_id="n")
    return dataclasses.replace(made, **changes)


def done(made: ImportedQuestion, first: int = 1) -> Sample:
    return finish_sample(made, first, HOLDINGS)


def test_a_sample_says_no_more_than_its_row():
    sample = done(draft(cites=[("d", 3), ("d", 1)]))
    assert sample.evidence_pages == (1, 3)
    assert sample.extra == {
        "gold": "41", "num_pages": 5, "native_id": "n", "row": 7, "document_sha256": "0" * 64,
    }  # fmt: skip


def test_pages_of_other_documents_are_named_with_them():
    sample = done(draft(cites=[("e", 3), ("d", 1)]))
    assert (sample.evidence_pages, sample.extra["page_ids"]) == ((1,), ["d#1", "e#3"])
    alone = done(draft(doc_id="e", cites=[("d", 1)]))
    assert (alone.evidence_pages, alone.extra["page_ids"]) == ((), ["d#1"])
    assert "document_sha256" not in alone.extra


@pytest.mark.parametrize(
    ("cited", "first", "kept"),
    [
        ([1, 5], 1, (1, 5)),
        ([0, 6], 1, ()),
        ([0, 4], 0, (1, 5)),
        ([-1, 5], 0, ()),
    ],
)
def test_pages_lie_in_the_document(cited, first, kept):
    made = draft(cites=[("d", page) for page in cited], native_pages=cited)
    sample = done(made, first)
    assert sample.evidence_pages == kept
    assert made.notes == ([] if kept else [OUTSIDE])
    assert sample.extra.get("native_evidence_pages") == (None if kept else cited)


def test_pages_of_a_document_of_unknown_length_stay():
    sample = finish_sample(draft(doc_id="unknown", cites=[("unknown", 900)]), 1, HOLDINGS)
    assert (sample.evidence_pages, sample.extra["num_pages"]) == ((900,), None)


@pytest.mark.parametrize(
    ("window", "fits"),
    [
        ([1, 5], True),
        ([2, 2], True),
        ([0, 3], False),
        ([3, 2], False),
        ([2, 6], False),
        ("2-3", False),
    ],
)
def test_windows_lie_in_the_document(window, fits):
    made = draft(extra={"window": window})
    extra = done(made).extra
    assert extra.get("window" if fits else "native_window") == window
    assert ("window" in extra) is fits
    assert made.notes == ([] if fits else [WINDOW])


def test_another_length_than_the_row_s_is_noted():
    for stated, notes in ((None, []), (5, []), (4, [LENGTH])):
        made = draft(num_pages=stated)
        assert done(made).extra["num_pages"] == 5
        assert made.notes == notes


WHOLE = (0.0, 0.0, 1.0, 1.0)


def test_boxes_stand_on_cited_pages_by_their_order():
    boxes = [
        (("e", 1), WHOLE),
        (("d", 2), (0.5, 0.0, 1.0, 2.0)),
        (("d", 1), WHOLE),
        (("d", 4), WHOLE),
    ]
    made = draft(cites=[("d", 1), ("d", 2), ("e", 1)], boxes=boxes)
    sample = done(made)
    assert list(sample.evidence_boxes.items()) == [(1, (WHOLE,)), (2, ((0.5, 0.0, 1.0, 1.0),))]
    assert sample.extra["other_boxes"] == {"e#1": [list(WHOLE)]}
    assert made.notes == [CLAMPED, DROPPED]


def test_boxes_in_pixels_need_the_size_of_their_page():
    pixels = (10.0, 20.0, 50.0, 100.0)
    made = draft(cites=[("d", 1), ("d", 2), ("d", 3)], in_pixels=True)
    made.boxes = [(("d", page), pixels) for page in (1, 2, 3)]
    boxes = done(made).evidence_boxes
    assert boxes == {1: ((0.1, 0.1, 0.5, 0.5),), 2: ((0.025, 0.04, 0.125, 0.2),)}
    assert made.notes == [DROPPED]


def test_boxes_lie_where_the_store_has_turned_their_page(monkeypatch):
    monkeypatch.setitem(HOLDINGS.turned, ("d", 2), Rotation.RIGHT)
    boxes = [(("d", page), (0.0, 0.0, 0.25, 0.5)) for page in (1, 2)]
    found = done(draft(cites=[("d", 1), ("d", 2)], boxes=boxes)).evidence_boxes
    assert found == {1: ((0.0, 0.0, 0.25, 0.5),), 2: ((0.5, 0.0, 1.0, 0.25),)}


def test_flags_are_of_pages_that_there_are():
    crops = {("d", 0): True, ("d", 1): True, ("d", 2): False, ("e", 1): True}
    made = draft(cites=[("d", 1), ("e", 1)], crops=crops)
    extra = done(made).extra
    assert (extra["crop_required"], extra["other_crop_required"]) == (
        {"1": True, "2": False},
        {"e#1": True},
    )


def test_what_is_no_sample_is_skipped_for_its_first_problem():
    with pytest.raises(Skip, match=r"^field 'answer_format': 'lists' is not an answer format$"):
        done(draft(answer_format="lists"))
    with pytest.raises(Skip, match="lone surrogate, or not a number"):
        done(draft(question="\ud800"))
    with pytest.raises(Skip, match="lone surrogate, or not a number"):
        done(draft(gold=math.nan))


@pytest.mark.parametrize(
    ("edges", "expected"),
    [
        ((5, 5, 9, 5), (None, False)),  # no height
        ((5, 5, 5, 9), (None, False)),  # no width
        ((5, 9, 9, 5), (None, False)),
        ((0, 0, math.inf, 5), (None, False)),
        ((0, 0, 10, 10), (WHOLE, False)),
        ((0, 0, 5, 11), ((0.0, 0.0, 0.5, 1.0), True)),
        ((-20, 0, -10, 10), (None, True)),
    ],
)
def test_boxes_have_an_area_in_their_page(edges, expected):
    assert normalised(edges, (10, 10)) == expected
