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
    assert all(name in note for name in ("alden", "unidoc_rl", "vrag_rl"))
    (note,) = record_notes(make_record(**BARE, answerable=False, answers=()))
    assert "alden" not in note
    assert record_notes(make_record()) == []
    assert record_notes(make_record(**BARE, extra={"page_ids": ["other#1"]})) == []
    path = write_jsonl([make_record(), make_record(**BARE, question_id="q2")], tmp_path / "records.jsonl")
    report = validate_jsonl(path)
    assert report.ok
    (note,) = report.notes
    assert note.startswith(f"{path}:2: ")
    assert "'q2'" in note
    assert validate_parquet(write_parquet([make_record(**BARE)], tmp_path / "x.parquet")).notes


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"answerable": None, "answers": ()}, ""),
        ({"answers": ("41", " ")}, "'answers'"),
        ({"extra": {"crop_required": [3]}}, "'extra.crop_required'"),
        ({"extra": {"crop_required": {"3": 1}}}, "'extra.crop_required'"),
        ({"extra": {"window": [3]}}, "'extra.window'"),
        ({"extra": {"window": [3, 12]}}, "[3, 12]"),
        ({"question": "How many \ud800?"}, "JSON"),
    ],
)
def test_rows_that_no_system_can_play_are_problems(make_record: Make, changes: dict, named: str) -> None:
    (problem,) = record_problems(make_record(**changes))
    assert named in problem


def test_documents_of_the_store(make_record: Make) -> None:
    assert record_problems(make_record(), store=Store({"report.v2": 9, "other": 3})) == []
    (problem,) = record_problems(make_record(), store=Store())
    assert "'report.v2'" in problem
    (problem,) = record_problems(make_record(), store=Store({"report.v2": 8}))
    assert "'extra.num_pages'" in problem


def test_pages_beyond_the_end_of_a_document(make_record: Make) -> None:
    record = make_record(extra={"num_pages": None})
    (problem,) = record_problems(record, store=Store({"report.v2": 4}))
    assert "page 5" in problem
    record = make_record(extra={"page_ids": ["report.v2#2", "report.v2#5", "other#4"]})
    assert record_problems(record, store=Store({"report.v2": 9, "other": 4})) == []
    (problem,) = record_problems(record, store=Store({"report.v2": 9, "other": 3}))
    assert "page 4" in problem
    assert "'other'" in problem
    (problem,) = record_problems(record, store=Store({"report.v2": 9}))
    assert "'other'" in problem


def test_a_malformed_page_id_is_the_only_problem(make_record: Make) -> None:
    (problem,) = record_problems(make_record(extra={"page_ids": ["x"]}), store=Store({"report.v2": 9}))
    assert "'doc#page'" in problem


def test_ids_must_be_unique_within_a_split(make_record: Make, tmp_path: Path) -> None:
    records = [make_record(), make_record(split=Split.VAL), make_record(dataset="dude")]
    path = write_jsonl(records, tmp_path / "records.jsonl")
    assert validate_jsonl(path).ok
    write_jsonl([*records, make_record()], path)
    (problem,) = validate_jsonl(path).problems
    assert all(named in problem for named in ("'q1'", "synthetic/train", "1, 4"))


def test_files_of_records(make_record: Make, tmp_path: Path) -> None:
    path = write_jsonl([make_record(), make_record(question_id="q2", answers=())], tmp_path / "records.jsonl")
    report = validate_jsonl(path)
    assert not report.ok
    assert (report.rows, report.counts) == (2, {"synthetic/train": 1, "unanswerable": 0})
    (problem,) = report.problems
    assert problem.startswith(f"{path}:2: ")
    assert "'answers'" in problem
    path.write_text("")
    (problem,) = validate_jsonl(path).problems
    assert str(path) in problem
    path.write_text("{")
    (problem,) = validate_jsonl(path).problems
    assert "records.jsonl:1" in problem
