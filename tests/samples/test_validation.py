from types import SimpleNamespace

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.samples.sample import Sample, Split, gold_boxes_of, magnified_boxes, write_jsonl
from docagent_rl.samples.validation import (
    sample_notes,
    sample_problems,
    validate_file,
    validate_sample,
)


class Store(dict):
    """The lengths of documents by id, with the methods of a store that validation needs."""

    def doc_ids(self) -> list[str]:
        return sorted(self)

    def document(self, doc_id: str) -> SimpleNamespace:
        if doc_id not in self:
            raise UserError(f"no document {doc_id}")
        return SimpleNamespace(num_pages=self[doc_id])


BARE = {"evidence_pages": (), "evidence_boxes": {}}
OWN, OTHER = (0.1, 0.2, 0.5, 0.25), (0.0, 0.0, 0.25, 0.5)


def test_questions_without_a_gold_page_are_noted(make_sample):
    (note,) = sample_notes(make_sample(**BARE))
    assert "allow_empty_gold" in note
    assert sample_notes(make_sample()) == []
    assert sample_notes(make_sample(**BARE, extra={"page_ids": ["other#1"]})) == []


@pytest.mark.parametrize(
    ("changes", "lengths", "named"),
    [
        ({"answerable": None, "answers": ()}, None, ""),
        ({"answers": ("41", " ")}, None, "'answers'"),
        ({"extra": {"crop_required": [3]}}, None, "'extra.crop_required'"),
        ({"extra": {"crop_required": {"3": 1}}}, None, "'extra.crop_required.3'"),
        ({"question": "How many \ud800?"}, None, "JSON"),
        ({}, {}, "'report.v2'"),
        ({}, {"2020/report.v2": 9, "2019/report.v2": 9}, "'2019/report.v2' or '2020/report.v2'?"),
        ({"doc_id": "three.tiff"}, {"three": 9}, "'three'?"),
        ({}, {"report.v2": 8}, "'extra.num_pages'"),
        ({"extra": {"num_pages": None}}, {"report.v2": 4}, "page 5"),
        (
            {"extra": {"page_ids": ["report.v2#2", "report.v2#5", "other#4"]}},
            {"report.v2": 9},
            "'other'",
        ),
        (
            {"extra": {"page_ids": ["report.v2#2", "report.v2#5", "o#4"]}},
            {"report.v2": 9, "o": 3},
            "page 4",
        ),
        ({"extra": {"page_ids": ["x"]}}, {"report.v2": 9}, "'doc#page'"),
        ({"extra": {"page_id": ["report.v2#2"]}}, None, "did you mean 'extra.page_ids'?"),
        ({"extra": {"windows": [1, 2]}}, None, "did you mean 'extra.window'?"),
    ],
)
def test_rows_that_no_system_can_play_have_one_problem(make_sample, changes, lengths, named):
    store = None if lengths is None else Store(lengths)
    (problem,) = sample_problems(make_sample(**changes), store=store)
    assert named in problem


def test_files_of_samples(make_sample, tmp_path):
    good = [make_sample(), make_sample(split=Split.VAL), make_sample(dataset="dude")]
    path = write_jsonl(good, tmp_path / "samples.jsonl")
    assert validate_file(path, store=Store({"report.v2": 9, "other": 3})).problems == []
    # ids are unique within a split
    (problem,) = validate_file(write_jsonl([*good, make_sample()], path)).problems
    assert all(named in problem for named in ("jsonl:1:", "'q1'", "synthetic/train", "jsonl:4"))
    report = validate_file(
        write_jsonl([make_sample(), make_sample(question_id="q2", answers=())], path)
    )
    assert (report.rows, len(report.samples)) == (2, 1)
    (problem,) = report.problems
    assert problem.startswith(f"{path}:2: ")
    assert "'answers'" in problem
    for text, place in (("", str(path)), ("{", "samples.jsonl:1")):
        path.write_text(text)
        (problem,) = validate_file(path).problems
        assert place in problem


@pytest.fixture
def two_documents(make_sample):
    def make(**extra: object) -> Sample:
        pages = ["report.v2#2", "report.v2#5", "a#b#1", "a#b#3"]
        return make_sample(
            extra={"page_ids": pages, "other_boxes": {"a#b#1": [list(OTHER)]}, **extra}
        )

    return make


def test_boxes_of_all_documents_go_by_document_and_page(two_documents):
    sample = two_documents()
    assert gold_boxes_of(sample) == {("report.v2", 5): (OWN,), ("a#b", 1): (OTHER,)}
    assert gold_boxes_of(Sample.from_json(sample.to_json())) == gold_boxes_of(sample)
    assert sample_problems(sample, store=Store({"report.v2": 9, "a#b": 3})) == []


@pytest.mark.parametrize(
    ("flags", "left"),
    [
        ({}, [("report.v2", 5), ("a#b", 1)]),
        ({"crop_required": {"5": False, "1": False}}, [("a#b", 1)]),
        ({"other_crop_required": {"a#b#1": False}}, [("report.v2", 5)]),
        ({"other_crop_required": {"a#b#1": True, "a#b#3": True}}, [("report.v2", 5), ("a#b", 1)]),
    ],
)
def test_flags_are_of_their_own_document(two_documents, flags, left):
    assert list(magnified_boxes(two_documents(**flags))) == left


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ({"other_boxes": [1]}, "'extra.other_boxes'"),
        ({"other_boxes": {"a": []}}, "'a'"),
        ({"other_boxes": {"a#b#1": 3}}, "'extra.other_boxes.a#b#1"),
        ({"other_boxes": {"a#b#1": [[0, 0, 1]]}}, "'extra.other_boxes.a#b#1"),
        ({"other_boxes": {"report.v2#5": []}}, "'evidence_boxes'"),
        ({"other_boxes": {"a#b#2": [[0, 0, 1, 1]]}}, "'a#b#2'"),
        ({"other_boxes": {"a#b#1": [[0, 0, 2, 1]]}}, "[0.0, 0.0, 2.0, 1.0]"),
        ({"other_crop_required": {"a#b#1": 1}}, "'extra.other_crop_required.a#b#1'"),
        ({"other_crop_required": {"report.v2#5": True}}, "'extra.crop_required'"),
    ],
)
def test_what_is_wrong_with_boxes_is_found_once_by_field_and_page(two_documents, extra, named):
    (found,) = sample_problems(two_documents(**extra))
    assert named in found


def test_an_error_of_boxes_names_the_question(two_documents):
    with pytest.raises(UserError, match=r"'q1'.*'extra\.other_boxes\.a#b#1"):
        gold_boxes_of(two_documents(other_boxes={"a#b#1": None}))


def test_a_file_is_held_against_the_store(make_sample, tmp_path):
    path = write_jsonl([make_sample()], tmp_path / "samples.jsonl")
    (problem,) = validate_file(path, store=Store({"report.v2": 8})).problems
    assert "'extra.num_pages' is 9, but the document has 8 pages" in problem


def test_a_length_that_is_no_number_is_no_length(make_sample):
    """The store's page count takes precedence over the sample's own."""
    assert validate_sample(make_sample(extra={"num_pages": "4"})) == []
    assert validate_sample(make_sample(extra={"num_pages": 4}), num_pages=9) == []
    (problem,) = validate_sample(make_sample(extra={"num_pages": 9}), num_pages=4)
    assert "there is no page 5 of a document of 4 pages" in problem


@pytest.mark.parametrize(
    ("box", "good"),
    [
        ((0.0, 0.0, 1.0, 1.0), True),
        ((0.5, 0.5, 0.5, 0.6), False),
        ((0.5, 0.5, 0.6, 0.5), False),
        ((0.5, 0.5, 0.6, 0.4), False),
        ((0.5, 0.5, 0.6, 1.1), False),
        ((0.5, 0.5, 1.1, 0.6), False),
        ((-0.1, 0.5, 0.6, 0.6), False),
        ((0.5, -0.1, 0.6, 0.6), False),
    ],
)
def test_boxes_have_an_area_within_their_page(make_sample, box, good):
    found = validate_sample(make_sample(evidence_boxes={5: (box,)}))
    assert len(found) == (0 if good else 1)
