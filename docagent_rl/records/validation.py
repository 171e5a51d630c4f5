"""The checks that a file of records has to pass before it may be trained on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from docagent_rl.base.errors import UserError
from docagent_rl.records.gold_boxes import other_box_problems
from docagent_rl.records.questions import scan_questions
from docagent_rl.records.record import Record, Split, validate_record


class _Sized(Protocol):
    @property
    def num_pages(self) -> int: ...


class DocumentLookup(Protocol):
    """The part of a document store that validation needs."""

    def __contains__(self, doc_id: str) -> bool: ...

    def document(self, doc_id: str) -> _Sized:
        """Return the document of that id."""
        ...


@dataclass(frozen=True)
class ValidationReport:
    """The findings about a file."""

    path: Path
    rows: int
    """Rows in the file; 0 when it cannot be read."""
    problems: tuple[str, ...]
    """One sentence each, naming the file and the row or column."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows by `dataset/split`, and under `unanswerable` the rows without an answer in the document."""
    notes: tuple[str, ...] = ()
    """Rows that some systems refuse, like `problems`; they may be trained on by others."""

    @property
    def ok(self) -> bool:
        """Whether the file may be trained on."""
        return not self.problems


@dataclass(frozen=True, slots=True)
class CheckedRow:
    """A record of a file."""

    number: int
    """The number of its line or row."""
    where: str
    """File, line or row, and question, for messages."""
    record: Record
    problems: Sequence[str] = ()
    """Those that are not of the record itself."""


def validate_jsonl(path: str | Path, *, store: DocumentLookup | None = None) -> ValidationReport:
    """Check a file of questions (`records.questions`); every problem of every line is in the report."""
    source = Path(path)
    try:
        found = scan_questions(source)
    except UserError as error:
        return ValidationReport(source, 0, (str(error),))
    if not found.rows:
        return ValidationReport(source, 0, (f"{source}: the file holds no records",))
    rows = [
        CheckedRow(line, f"{source}:{line}: question {record.question_id!r}", record)
        for line, record in found.records
    ]
    return report_on(source, found.rows, rows, found.problems, store=store, unit="lines")


def report_on(
    path: Path,
    count: int,
    rows: Sequence[CheckedRow],
    problems: Sequence[str],
    *,
    store: DocumentLookup | None,
    unit: str,
) -> ValidationReport:
    """Check the records of a file of `count` rows (`unit` in messages) with `problems` found before."""
    found, notes = [*problems, *_repeated_ids(path, rows, unit)], []
    for row in rows:
        of_row = [*row.problems, *record_problems(row.record, store=store)]
        found += [f"{row.where}: {problem}" for problem in of_row]
        notes += [f"{row.where}: {note}" for note in record_notes(row.record)]
    counts = Counter(f"{row.record.dataset}/{row.record.split.value}" for row in rows)
    counts["unanswerable"] = sum(row.record.answerable is False for row in rows)
    return ValidationReport(path, count, tuple(found), dict(counts), tuple(notes))


def record_problems(record: Record, *, store: DocumentLookup | None = None) -> list[str]:
    """Return everything that forbids training on `record`.

    These are the findings of `validate_record`, a question that no answer can be held against, text that no
    file can hold, and with a `store` documents that are absent or shorter than the record believes.
    """
    num_pages = (
        store.document(record.doc_id).num_pages if store is not None and record.doc_id in store else None
    )
    problems = validate_record(record, num_pages=num_pages)
    if any("extra.page_ids" in problem for problem in problems):
        return problems
    problems += [problem for problem in other_box_problems(record) if problem not in problems]
    stated = record.extra.get("num_pages")
    if num_pages is not None and stated is not None and stated != num_pages:
        problems.append(f"field 'extra.num_pages' is {stated}, but the document has {num_pages} pages")
    if record.answerable is None and not record.answers:
        problems.append(
            "there is no reference answer, so nothing can be scored: give 'answers', or 'answerable' false"
        )
    try:
        record.to_json()
    except UserError as error:
        problems.append(str(error))
    return problems if store is None else problems + _store_problems(record, store)


def record_notes(record: Record) -> list[str]:
    """Return why some systems refuse to play a record that others play."""
    if record.extra.get("page_ids") is not None or record.evidence_pages:
        return []
    if record.answerable is False:
        return ["no evidence page; unidoc_rl and vrag_rl train on it only with docagent.env.allow_empty_gold"]
    return [
        "no evidence page to reward retrieval by; alden, unidoc_rl and vrag_rl train on it only with "
        "docagent.env.allow_empty_gold, doc_v_star only with allow_unknown_evidence"
    ]


def _repeated_ids(path: Path, rows: Sequence[CheckedRow], unit: str) -> list[str]:
    """Return question ids that occur more than once within a dataset and split."""
    places: dict[tuple[str, Split, str], list[int]] = defaultdict(list)
    for row in rows:
        places[row.record.dataset, row.record.split, row.record.question_id].append(row.number)
    return [
        f"{path}: question id {question_id!r} occurs {len(found)} times in {dataset}/{split.value} "
        f"({unit} {', '.join(map(str, found[:10]))})"
        for (dataset, split, question_id), found in places.items()
        if len(found) > 1
    ]


def _store_problems(record: Record, store: DocumentLookup) -> list[str]:
    problems = []
    cited = {doc_id for doc_id, _ in record.gold_pages} | {record.doc_id}
    for doc_id in sorted(cited):
        if doc_id not in store:
            problems.append(f"document {doc_id!r} is not in the store; ingest it first")
        elif doc_id != record.doc_id:
            length = store.document(doc_id).num_pages
            problems += [
                f"evidence page {page} is beyond the {length} pages of document {doc_id!r}"
                for other, page in sorted(record.gold_pages)
                if other == doc_id and not 1 <= page <= length
            ]
    return problems
