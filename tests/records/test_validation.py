from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from docagent_rl.errors import UserError
from docagent_rl.records.parquet import validate_parquet, write_parquet
from docagent_rl.records.record import Record, Split, write_jsonl
from docagent_rl.records.validation import record_notes, record_problems, validate_jsonl

Make = Callable[..., Record]


@dataclass
class Pages:
    num_pages: int


class Store(dict):
    """Documents by id, with the two methods that validation needs of a store."""

    def document(self, doc_id: str) -> Pages:
        if doc_id not in self:
            raise UserError(f"no document {doc_id}")
        return Pages(self[doc_id])


BARE = {"evidence_pages": (), "evidence_boxes": {}}


def test_questions_without_a_gold_page_are_noted(make_record: Make, tmp_path: Path) -> None:
    (note,) = record_notes(make_record(**BARE))
    assert note.startswith(
        "no evidence page to reward retrieval by; alden, unidoc_rl and vrag_rl train on it"
    )
    (note,) = record_notes(make_record(**BARE, answerable=False, answers=()))
    assert "unidoc_rl and vrag_rl train on it only" in note
    assert record_notes(make_record()) == []
    assert record_notes(make_record(**BARE, extra={"page_ids": ["other#1"]})) == []
    path = write_jsonl([make_record(), make_record(**BARE, question_id="q2")], tmp_path / "records.jsonl")
    report = validate_jsonl(path)
    assert report.ok
    assert [note.partition(": no ")[0] for note in report.notes] == [f"{path}:2: question 'q2'"]
    assert validate_parquet(write_parquet([make_record(**BARE)], tmp_path / "x.parquet")).notes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answerable": None, "answers": ()}, "there is no reference answer"),
        ({"answers": ("41", " ")}, "field 'answers' holds an empty answer"),
        ({"extra": {"crop_required": [3]}}, "field 'extra.crop_required': expected a mapping from page"),
        ({"extra": {"crop_required": {"3": 1}}}, "field 'extra.crop_required': expected a mapping from page"),
        ({"extra": {"window": [3]}}, "field 'extra.window' must be the first and the last"),
        ({"extra": {"window": [3, 12]}}, "of the 9 pages of the document, found [3, 12]"),
        ({"question": "How many \ud800?"}, "cannot be written as JSON"),
    ],
)
def test_rows_that_no_system_can_play_are_problems(make_record: Make, changes: dict, message: str) -> None:
    (problem,) = record_problems(make_record(**changes))
    assert message in problem


@pytest.mark.parametrize(
    ("store", "message"),
    [
        ({}, "document 'report.v2' is not in the store"),
        ({"report.v2": 8}, "field 'extra.num_pages' is 9, but the document has 8 pages"),
        ({"report.v2": 9, "other": 3}, None),
    ],
)
def test_documents_of_the_store(make_record: Make, store: dict, message: str | None) -> None:
    problems = record_problems(make_record(), store=Store(store))
    assert [message] * (message is not None) == [problem[: len(message or "")] for problem in problems]


def test_pages_beyond_the_end_of_a_document(make_record: Make) -> None:
    record = make_record(extra={"num_pages": None})
    (problem,) = record_problems(record, store=Store({"report.v2": 4}))
    assert "no page 5 of a document of 4 pages" in problem
    record = make_record(extra={"page_ids": ["report.v2#2", "report.v2#5", "other#4"]})
    assert record_problems(record, store=Store({"report.v2": 9, "other": 4})) == []
    (problem,) = record_problems(record, store=Store({"report.v2": 9, "other": 3}))
    assert problem == "evidence page 4 is beyond the 3 pages of document 'other'"
    (problem,) = record_problems(record, store=Store({"report.v2": 9}))
    assert "document 'other' is not in the store" in problem


def test_a_malformed_page_id_is_the_only_problem(make_record: Make) -> None:
    (problem,) = record_problems(make_record(extra={"page_ids": ["x"]}), store=Store({"report.v2": 9}))
    assert "is not 'doc#page'" in problem


def test_ids_must_be_unique_within_a_split(make_record: Make, tmp_path: Path) -> None:
    records = [make_record(), make_record(split=Split.VAL), make_record(dataset="dude")]
    path = write_jsonl(records, tmp_path / "records.jsonl")
    assert validate_jsonl(path).ok
    write_jsonl([*records, make_record()], path)
    (problem,) = validate_jsonl(path).problems
    assert problem == f"{path}: question id 'q1' occurs 2 times in synthetic/train (lines 1, 4)"


def test_files_of_records(make_record: Make, tmp_path: Path) -> None:
    path = write_jsonl([make_record(), make_record(question_id="q2", answers=())], tmp_path / "records.jsonl")
    report = validate_jsonl(path)
    assert not report.ok
    assert (report.rows, report.counts) == (2, {"synthetic/train": 1, "unanswerable": 0})
    (problem,) = report.problems
    assert problem.startswith(f"{path}:2: field 'answers' is empty: give at least one")
    path.write_text("")
    assert validate_jsonl(path).problems == (f"{path}: the file holds no records",)
    path.write_text("{")
    (problem,) = validate_jsonl(path).problems
    assert "records.jsonl:1: not valid JSON" in problem
