"""Whether a file of records may be trained on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from docagent_rl.data.record import Record, read_jsonl, validate_record
from docagent_rl.errors import UserError


class _Sized(Protocol):
    num_pages: int


class DocumentLookup(Protocol):
    """What validation needs of a document store."""

    def __contains__(self, doc_id: str) -> bool: ...

    def document(self, doc_id: str) -> _Sized:
        """The document of that id."""


@dataclass(frozen=True)
class ValidationReport:
    """What the validation of a file found."""

    path: Path
    rows: int
    """Rows in the file; 0 when it cannot be read."""
    problems: tuple[str, ...]
    """One sentence each, naming the file and the row or column."""
    counts: dict[str, int] = field(default_factory=dict)
    """Rows by `dataset/split`, and under `unanswerable` the rows without an answer in the document."""

    @property
    def ok(self) -> bool:
        """Whether the file may be trained on."""
        return not self.problems


def validate_jsonl(path: str | Path, *, store: DocumentLookup | None = None) -> ValidationReport:
    """Check a file of records, one JSON object a line; an unreadable line is the only problem then."""
    source = Path(path)
    try:
        records = read_jsonl(source)
    except UserError as error:
        return ValidationReport(source, 0, (str(error),))
    problems = duplicate_problems(source, records) if records else [f"{source}: the file holds no records"]
    for record in records:
        found = record_problems(record, store=store)
        problems += [f"{source}: question {record.question_id!r}: {problem}" for problem in found]
    return ValidationReport(source, len(records), tuple(problems), count_records(records))


def record_problems(record: Record, *, store: DocumentLookup | None = None) -> list[str]:
    """Everything that forbids training on `record`.

    What `validate_record` finds, an answerable question without a gold page, and with a `store` documents
    that are absent or shorter than the record believes.
    """
    num_pages = (
        store.document(record.doc_id).num_pages if store is not None and record.doc_id in store else None
    )
    problems = validate_record(record, num_pages=num_pages)
    if any("extra.page_ids" in problem for problem in problems):
        return problems
    stated = record.extra.get("num_pages")
    if num_pages is not None and stated is not None and stated != num_pages:
        problems.append(f"field 'extra.num_pages' is {stated}, but the document has {num_pages} pages")
    if record.answerable and not record.gold_pages:
        problems.append("the question is answerable but has no evidence page; retrieval rewards need one")
    return problems if store is None else problems + _store_problems(record, store)


def count_records(records: Sequence[Record]) -> dict[str, int]:
    """Records by `dataset/split`, then `unanswerable`."""
    counts = Counter(f"{record.dataset}/{record.split.value}" for record in records)
    counts["unanswerable"] = sum(record.answerable is False for record in records)
    return dict(counts)


def duplicate_problems(source: Path, records: Sequence[Record]) -> list[str]:
    """Question ids that occur more than once within a dataset and split."""
    counts = Counter((record.dataset, record.split, record.question_id) for record in records)
    return [
        f"{source}: question id {question_id!r} occurs {count} times in {dataset}/{split.value}"
        for (dataset, split, question_id), count in counts.items()
        if count > 1
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
