"""The checks that a file of samples has to pass before it may be trained on."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from docagent_rl.base.errors import UserError
from docagent_rl.samples.gold_boxes import other_box_problems
from docagent_rl.samples.questions import scan_questions
from docagent_rl.samples.sample import Sample, Split, validate_sample


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
    """A sample of a file."""

    number: int
    """The number of its line or row."""
    where: str
    """File, line or row, and question, for messages."""
    sample: Sample
    problems: Sequence[str] = ()
    """Those that are not of the sample itself."""


def validate_jsonl(path: str | Path, *, store: DocumentLookup | None = None) -> ValidationReport:
    """Check a file of questions (`samples.questions`); every problem of every line is in the report."""
    source = Path(path)
    try:
        found = scan_questions(source)
    except UserError as error:
        return ValidationReport(source, 0, (str(error),))
    if not found.rows:
        return ValidationReport(source, 0, (f"{source}: the file holds no samples",))
    rows = [
        CheckedRow(line, f"{source}:{line}: question {sample.question_id!r}", sample)
        for line, sample in found.samples
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
    """Check the samples of a file of `count` rows (`unit` in messages) with `problems` found before."""
    found, notes = [*problems, *_repeated_ids(path, rows, unit)], []
    for row in rows:
        of_row = [*row.problems, *sample_problems(row.sample, store=store)]
        found += [f"{row.where}: {problem}" for problem in of_row]
        notes += [f"{row.where}: {note}" for note in sample_notes(row.sample)]
    counts = Counter(f"{row.sample.dataset}/{row.sample.split.value}" for row in rows)
    counts["unanswerable"] = sum(row.sample.answerable is False for row in rows)
    return ValidationReport(path, count, tuple(found), dict(counts), tuple(notes))


def sample_problems(sample: Sample, *, store: DocumentLookup | None = None) -> list[str]:
    """Return everything that forbids training on `sample`.

    These are the findings of `validate_sample`, a question that no answer can be held against, text that no
    file can hold, and with a `store` documents that are absent or shorter than the sample believes.
    """
    num_pages = (
        store.document(sample.doc_id).num_pages if store is not None and sample.doc_id in store else None
    )
    problems = validate_sample(sample, num_pages=num_pages)
    if any("extra.page_ids" in problem for problem in problems):
        return problems
    problems += [problem for problem in other_box_problems(sample) if problem not in problems]
    stated = sample.extra.get("num_pages")
    if num_pages is not None and stated is not None and stated != num_pages:
        problems.append(f"field 'extra.num_pages' is {stated}, but the document has {num_pages} pages")
    if sample.answerable is None and not sample.answers:
        problems.append(
            "there is no reference answer, so nothing can be scored: give 'answers', or 'answerable' false"
        )
    try:
        sample.to_json()
    except UserError as error:
        problems.append(str(error))
    return problems if store is None else problems + _store_problems(sample, store)


def sample_notes(sample: Sample) -> list[str]:
    """Return why some systems refuse to play a sample that others play."""
    if sample.extra.get("page_ids") is not None or sample.evidence_pages:
        return []
    if sample.answerable is False:
        return ["no evidence page; unidoc_rl and vrag_rl train on it only with docagent.env.allow_empty_gold"]
    return [
        "no evidence page to reward retrieval by; alden, unidoc_rl and vrag_rl train on it only with "
        "docagent.env.allow_empty_gold, doc_v_star only with allow_unknown_evidence"
    ]


def _repeated_ids(path: Path, rows: Sequence[CheckedRow], unit: str) -> list[str]:
    """Return question ids that occur more than once within a dataset and split."""
    places: dict[tuple[str, Split, str], list[int]] = defaultdict(list)
    for row in rows:
        places[row.sample.dataset, row.sample.split, row.sample.question_id].append(row.number)
    return [
        f"{path}: question id {question_id!r} occurs {len(found)} times in {dataset}/{split.value} "
        f"({unit} {', '.join(map(str, found[:10]))})"
        for (dataset, split, question_id), found in places.items()
        if len(found) > 1
    ]


def _store_problems(sample: Sample, store: DocumentLookup) -> list[str]:
    problems = []
    cited = {doc_id for doc_id, _ in sample.gold_pages} | {sample.doc_id}
    for doc_id in sorted(cited):
        if doc_id not in store:
            problems.append(f"document {doc_id!r} is not in the store; ingest it first")
        elif doc_id != sample.doc_id:
            length = store.document(doc_id).num_pages
            problems += [
                f"evidence page {page} is beyond the {length} pages of document {doc_id!r}"
                for other, page in sorted(sample.gold_pages)
                if other == doc_id and not 1 <= page <= length
            ]
    return problems
