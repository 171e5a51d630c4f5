"""Validation of single samples, and of files of samples."""

from __future__ import annotations

import difflib
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import text_problem
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.questions import Questions, scan_questions
from docagent_rl.samples.sample import (
    LONGEST_TEXT,
    OTHER_BOXES,
    OTHER_FLAGS,
    Box,
    Sample,
    Split,
    gold_boxes_of,
    magnified_boxes,
)

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore


KEYS_READ = (
    "page_ids",
    "window",
    "crop_required",
    OTHER_BOXES,
    OTHER_FLAGS,
    "num_pages",
    "gold",
    "variants",
)
"""The keys of `Sample.extra` that environments, rewards and official scorers use."""
_MEANT = 3
"""The maximum number of similarly named documents that a message suggests."""


def validate_file(path: str | Path, *, store: DocumentStore | None = None) -> Questions:
    """Read and validate a `.parquet` file, or the questions of any other file.

    This checks columns and types, every single sample, unique question ids and, with a `store`,
    that each cited document exists and is long enough. A file without problems can be trained on.
    """
    source = Path(path)
    try:
        if source.suffix == ".parquet":
            rows = [
                (f"{source}: row {row}", sample) for row, sample in enumerate(read_parquet(source))
            ]
            found = Questions(source, len(rows), rows)
        else:
            found = scan_questions(source)
    except UserError as error:
        return Questions(source, problems=[str(error)])
    return validate_questions(found, store=store)


def validate_questions(found: Questions, *, store: DocumentStore | None = None) -> Questions:
    """Add the problems of questions that were parsed, as `validate_file` does; return them."""
    found.problems += _repeated_ids(found.samples)
    if not (found.rows or found.problems):
        found.problems.append(f"{found.path}: the file contains no samples")
    for place, sample in found.samples:
        problems = sample_problems(sample, store=store)
        found.problems += [
            f"{place}: question {sample.question_id!r}: {problem}" for problem in problems
        ]
    return found


def validate_sample(sample: Sample, *, num_pages: int | None = None) -> list[str]:
    """Return the problems of a sample's values, one sentence each.

    `num_pages` is the length of the document; by default `extra["num_pages"]` is used if it is a
    number.
    """
    problems = [
        f"field '{name}' {problem}"
        for name in ("question_id", "dataset", "doc_id", "question")
        if (problem := text_problem(getattr(sample, name), LONGEST_TEXT))
    ]
    if sample.doc_id.startswith("/") or sample.doc_id.lower().endswith(".pdf"):
        problems.append(
            "field 'doc_id' must be a path below the ingested folder, without .pdf suffix, found "
            f"{sample.doc_id!r}"
        )
    if num_pages is None and isinstance(sample.extra.get("num_pages"), int):
        num_pages = sample.extra["num_pages"]
    if sample.answerable is not None and sample.answerable is not bool(sample.answers):
        problems.append("field 'answers' must be empty if, and only if, 'answerable' is false")
    found = (text_problem(answer, LONGEST_TEXT) for answer in sample.answers)
    if problem := next(filter(None, found), None):
        problems.append(f"field 'answers': an answer {problem}")
    return problems + _evidence_problems(sample, num_pages) + _extra_problems(sample)


def check_sample(sample: Sample) -> Sample:
    """Return `sample` if it is valid, else raise a `UserError` with all its problems."""
    if problems := validate_sample(sample):
        raise UserError(f"sample {sample.question_id!r}: {'; '.join(problems)}")
    return sample


def _evidence_problems(sample: Sample, num_pages: int | None) -> list[str]:
    pages = sample.evidence_pages
    problems = []
    if list(pages) != sorted(set(pages)):
        problems.append(f"field 'evidence_pages' must be sorted and distinct, found {list(pages)}")
    of, last = (
        ("", math.inf) if num_pages is None else (f" of a document of {num_pages} pages", num_pages)
    )
    problems += [
        f"field 'evidence_pages': there is no page {page}{of} (pages count from 1)"
        for page in pages
        if not 1 <= page <= last
    ]
    for page, boxes in sorted(sample.evidence_boxes.items()):
        if page not in pages:
            problems.append(f"field 'evidence_boxes': page {page} is not among 'evidence_pages'")
        problems += _box_problems("evidence_boxes", page, boxes)
    return problems


def _extra_problems(sample: Sample) -> list[str]:
    """Return the problems of those keys of `extra` that environments use."""
    try:
        gold = sample.labelled_pages
    except UserError as error:
        return [str(error)]
    problems = _mistyped_keys(sample.extra)
    own = {page for doc_id, page in gold if doc_id == sample.doc_id}
    if sample.extra.get("page_ids") is not None and own != set(sample.evidence_pages):
        problems.append(
            f"field 'extra.page_ids' cites pages {sorted(own)} of {sample.doc_id!r}, but "
            f"'evidence_pages' contains {list(sample.evidence_pages)}"
        )
    try:
        boxes = gold_boxes_of(sample)
        magnified_boxes(sample)
    except UserError as error:
        return [*problems, str(error).removeprefix(f"question {sample.question_id!r}, ")]
    field = f"extra.{OTHER_BOXES}"
    for (doc_id, page), found in boxes.items():
        if doc_id != sample.doc_id:
            if (doc_id, page) not in gold:
                problems.append(
                    f"field '{field}': page '{doc_id}#{page}' is not among 'extra.page_ids'"
                )
            problems += _box_problems(field, f"'{doc_id}#{page}'", found)
    return problems


def _mistyped_keys(extra: Mapping[str, Any]) -> list[str]:
    """Report keys that look like misspelt keys of `KEYS_READ`, since they would be ignored."""
    problems = []
    for key in sorted(set(extra) - set(KEYS_READ)):
        near = difflib.get_close_matches(key, KEYS_READ, n=1, cutoff=0.85)
        if near:
            problems.append(f"field 'extra.{key}' is not used; did you mean 'extra.{near[0]}'?")
    return problems


def sample_problems(sample: Sample, *, store: DocumentStore | None = None) -> list[str]:
    """Return everything that prevents training on `sample`.

    These are the problems that `validate_sample` finds, a missing reference answer, text that
    cannot be written to a file and, with a `store`, documents that are missing or have another
    length.
    """
    num_pages = (
        store.document(sample.doc_id).num_pages
        if store is not None and sample.doc_id in store
        else None
    )
    problems = validate_sample(sample, num_pages=num_pages)
    if any("extra.page_ids" in problem for problem in problems):
        return problems
    stated = sample.extra.get("num_pages")
    if num_pages is not None and stated is not None and stated != num_pages:
        problems.append(
            f"field 'extra.num_pages' is {stated}, but the document has {num_pages} pages"
        )
    if sample.answerable is None and not sample.answers:
        problems.append(
            "there is no reference answer, so no answer can be scored: give 'answers', or set "
            "'answerable' to false"
        )
    try:
        sample.to_json()
    except UserError as error:
        problems.append(str(error))
    return problems if store is None else problems + _store_problems(sample, store)


def sample_notes(sample: Sample) -> list[str]:
    """Return why some systems reject a sample that others accept."""
    if sample.extra.get("page_ids") is not None or sample.evidence_pages:
        return []
    return [
        "there is no evidence page, so systems that reward retrieval train on it only with "
        "docagent.env.allow_empty_gold, or allow_unknown_evidence for doc_v_star (`--recipe` says "
        "which)"
    ]


def _repeated_ids(samples: Sequence[tuple[str, Sample]]) -> list[str]:
    """Return question ids that occur more than once within a dataset and split."""
    places: dict[tuple[str, Split, str], list[str]] = defaultdict(list)
    for place, sample in samples:
        places[sample.dataset, sample.split, sample.question_id].append(place)
    return [
        f"{found[0]}: question id {name!r} of {dataset}/{split.value} occurs again at {found[1]}"
        for (dataset, split, name), found in places.items()
        if len(found) > 1
    ]


def _store_problems(sample: Sample, store: DocumentStore) -> list[str]:
    problems = []
    cited = {doc_id for doc_id, _ in sample.labelled_pages} | {sample.doc_id}
    for doc_id in sorted(cited):
        if doc_id not in store:
            problems.append(_missing(doc_id, store))
        elif doc_id != sample.doc_id:
            length = store.document(doc_id).num_pages
            problems += [
                f"evidence page {page} is beyond the {length} pages of document {doc_id!r}"
                for other, page in sorted(sample.labelled_pages)
                if other == doc_id and not 1 <= page <= length
            ]
    return problems


def _missing(doc_id: str, store: DocumentStore) -> str:
    """Return the message for a missing document, with suggestions of documents of the same name."""
    names = f"/{doc_id}", f"/{doc_id.rpartition('.')[0] or doc_id}"
    alike = [each for each in store.doc_ids() if f"/{each}".endswith(names)]
    if not alike:
        return f"document {doc_id!r} is not in the store; ingest it first"
    meant = " or ".join(map(repr, alike[:_MEANT]))
    return (
        f"document {doc_id!r} is not in the store; ids are paths below the ingested folder: "
        f"{meant}?"
    )


def _box_problems(field: str, page: int | str, found: tuple[Box, ...]) -> list[str]:
    """Return the problems of the boxes of a page, one sentence per box."""
    return [
        f"field '{field}': box {list(box)} on page {page} must satisfy 0 <= x0 < x1 <= 1 and "
        "0 <= y0 < y1 <= 1"
        for box in found
        if not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1)
    ]
