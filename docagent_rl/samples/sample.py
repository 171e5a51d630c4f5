"""The canonical sample: one question about one document, whatever dataset it came from."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.base.terminal import id_problem
from docagent_rl.base.text import lone_surrogate
from docagent_rl.samples import fields
from docagent_rl.samples.fields import Box as Box
from docagent_rl.samples.fields import Split as Split

REQUIRED_EXTRA = ("gold", "num_pages", "native_id", "row")
"""Keys that `extra` always holds; their values may be null."""


@dataclass(frozen=True)
class Sample:
    """One question with its gold answer and evidence.

    Fields hold the right types once the sample exists; whether the values make sense is the question that
    `validate_sample` answers.
    """

    question_id: str
    """Unique within (dataset, split), stable across runs."""
    dataset: str
    """Lower-case name of the source, e.g. `slidevqa` or `synthetic`."""
    split: Split
    doc_id: str
    """Document key: no directory, no `.pdf` suffix."""
    question: str
    answers: tuple[str, ...]
    """Alternatives, or the items of a list answer; empty when unanswerable or hidden."""
    answer_format: str = "string"
    """The type of answer as the official scorer of the dataset needs it, verbatim."""
    evidence_pages: tuple[int, ...] = ()
    """1-based physical pages, sorted and distinct."""
    evidence_boxes: Mapping[int, tuple[Box, ...]] = field(default_factory=dict)
    """Boxes by 1-based page."""
    evidence_sources: tuple[str, ...] = ()
    """Native labels, e.g. `Table` or `Chart`."""
    answerable: bool | None = True
    """None when unknown (hidden test rows)."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """`gold`, `num_pages`, `native_id`, `row`, then native fields without a home above."""

    def __post_init__(self) -> None:
        for name in ("question_id", "dataset", "doc_id"):
            if problem := id_problem(getattr(self, name)):
                raise UserError(f"field {name!r}: {problem}")

    @property
    def gold_pages(self) -> frozenset[tuple[str, int]]:
        """The evidence as `(doc_id, page)` pairs.

        `extra["page_ids"]` (strings `"doc#page"`) takes precedence, since a question may cite pages of
        several documents; otherwise the sample's own document with each of `evidence_pages`.

        Raises:
            UserError: `extra.page_ids` is no list, or an entry of it is not of the form `doc#page`.
        """
        page_ids = self.extra.get("page_ids")
        if page_ids is None:
            return frozenset((self.doc_id, page) for page in self.evidence_pages)
        if not isinstance(page_ids, list | tuple):
            raise UserError("field 'extra.page_ids' must be a list of 'doc#page' strings")
        return frozenset(parse_page_id(page_id) for page_id in page_ids)

    @property
    def document_key(self) -> str:
        """The key that questions about one document share.

        MP-DocVQA asks about windows of longer documents: they are documents of their own here, and say in
        `extra["native_doc_id"]` whose part they are.
        """
        native = self.extra.get("native_doc_id")
        return native if isinstance(native, str) and native else self.doc_id

    @property
    def document_keys(self) -> frozenset[str]:
        """The document that is asked about, and others whose pages are evidence."""
        others = {doc_id for doc_id, _ in self.gold_pages if doc_id != self.doc_id}
        return frozenset({self.document_key, *others})

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Sample:
        """Build a sample from a decoded JSON object.

        Raises:
            UserError: a field is missing, unknown or of the wrong type; the message names it.
        """
        if not isinstance(data, Mapping):
            raise UserError(f"a sample must be a JSON object, found {type(data).__name__}")
        if unknown := sorted(set(data) - set(fields.FIELDS)):
            raise UserError(f"unknown field {unknown[0]!r}; put fields without a home under 'extra'")
        if missing := [name for name in fields.FIELDS if name not in data]:
            raise UserError(f"field {missing[0]!r} is missing")
        return cls(**{name: fields.read(name, data[name]) for name in fields.FIELDS})

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary: fields in the order of the class, boxes by page as a string."""
        boxes = {
            str(page): [list(box) for box in found] for page, found in sorted(self.evidence_boxes.items())
        }
        return {
            "question_id": self.question_id,
            "dataset": self.dataset,
            "split": self.split.value,
            "doc_id": self.doc_id,
            "question": self.question,
            "answers": list(self.answers),
            "answer_format": self.answer_format,
            "evidence_pages": list(self.evidence_pages),
            "evidence_boxes": boxes,
            "evidence_sources": list(self.evidence_sources),
            "answerable": self.answerable,
            "extra": dict(self.extra),
        }

    @classmethod
    def from_json(cls, text: str) -> Sample:
        """Parse one JSON line.

        Raises:
            UserError: not JSON, not a sample, or a text that holds a lone surrogate.
        """
        try:
            data = json.loads(text)
        except json.JSONDecodeError as error:
            raise UserError(f"not valid JSON: {error}") from error
        # written as an escape, half a character passes every file
        if half := lone_surrogate(json.dumps(data, ensure_ascii=False)):
            name = data.get("question_id") if isinstance(data, dict) else None
            raise UserError(
                f"sample {name!r} holds half a character ({half}, a lone surrogate), which no tokenizer "
                "takes: mend the text"
            )
        return cls.from_dict(data)

    def to_json(self) -> str:
        """Return one line of JSON with a stable key order; equal samples give equal text."""
        try:
            text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)
            text.encode("utf-8")  # half a character, a lone surrogate, has no place in a file
            return text
        except (TypeError, ValueError) as error:
            raise UserError(f"sample {self.question_id!r} cannot be written as JSON: {error}") from error


def parse_page_id(page_id: Any) -> tuple[str, int]:
    """Split `"doc#page"` into `(doc_id, page)`; the document id may itself hold `#`.

    Raises:
        UserError: there is no `#`, or what follows the last one is not a page number from 1 on.
    """
    doc_id, _, page = page_id.rpartition("#") if isinstance(page_id, str) else ("", "", "")
    if not (doc_id and fields.is_digits(page) and int(page) >= 1):
        raise UserError(f"field 'extra.page_ids': {page_id!r} is not 'doc#page' with a page number from 1")
    if problem := id_problem(doc_id):
        raise UserError(f"field 'extra.page_ids': {problem}")
    return doc_id, int(page)


def crop_flags(sample: Sample) -> dict[int, bool]:
    """Return which pages have to be magnified: `extra["crop_required"]`, from page to true or false.

    Raises:
        UserError: it is malformed; the message names the question.
    """
    flags = sample.extra.get("crop_required")
    if flags is None:
        return {}
    parsed = {}
    for page, flag in flags.items() if isinstance(flags, Mapping) else [(None, None)]:
        # JSON turns page numbers into strings
        if not (fields.is_digits(str(page)) and isinstance(flag, bool)):
            found = {page: flag} if isinstance(flags, Mapping) else flags
            raise UserError(
                f"question {sample.question_id!r}, field 'extra.crop_required': expected a mapping from page "
                f"number to true or false, found {found!r}"
            )
        parsed[int(str(page))] = flag
    return parsed


def validate_sample(sample: Sample, *, num_pages: int | None = None) -> list[str]:
    """Return what is wrong with the values of `sample`, one sentence a problem; empty when all is well.

    `num_pages` is the length of the document; without it `extra["num_pages"]` is used when it is a number.
    """
    problems = [
        f"field '{name}' is empty"
        for name in ("question_id", "dataset", "doc_id", "question", "answer_format")
        if not getattr(sample, name).strip()
    ]
    if "/" in sample.doc_id or "\\" in sample.doc_id or sample.doc_id.lower().endswith(".pdf"):
        problems.append(f"field 'doc_id' must hold no directory and no .pdf suffix, found {sample.doc_id!r}")
    problems += [f"field 'extra' lacks the key '{key}'" for key in REQUIRED_EXTRA if key not in sample.extra]
    if num_pages is None and isinstance(sample.extra.get("num_pages"), int):
        num_pages = sample.extra["num_pages"]
    problems += _answer_problems(sample) + _evidence_problems(sample, num_pages) + _page_id_problems(sample)
    return problems + _extra_problems(sample, num_pages)


def check_sample(sample: Sample, *, num_pages: int | None = None) -> Sample:
    """Return `sample` unchanged if `validate_sample` finds nothing.

    Raises:
        UserError: all problems in one message that starts with the question id.
    """
    if problems := validate_sample(sample, num_pages=num_pages):
        raise UserError(f"sample {sample.question_id!r}: {'; '.join(problems)}")
    return sample


def read_jsonl(path: str | Path) -> list[Sample]:
    """Read samples, one JSON object a line; blank lines are skipped.

    Raises:
        UserError: the file is missing or a line is no sample; the message names file, line and field.
    """
    source = Path(path)
    if not source.is_file():
        raise UserError(f"{source}: no such file; expected samples, one JSON object a line")
    samples = []
    try:
        with source.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    samples.append(_from_line(source, number, line))
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: not UTF-8 text ({error}); a Parquet file is read elsewhere") from error
    return samples


def write_jsonl(samples: Iterable[Sample], path: str | Path) -> Path:
    """Write samples atomically, one JSON object a line."""
    return atomic_write(path, json_lines(samples))


def json_lines(samples: Iterable[Sample]) -> str:
    """Return the file that `write_jsonl` writes."""
    return "".join(f"{sample.to_json()}\n" for sample in samples)


def _from_line(source: Path, number: int, line: str) -> Sample:
    try:
        return Sample.from_json(line)
    except UserError as error:
        raise UserError(f"{source}:{number}: {error}") from error


def _answer_problems(sample: Sample) -> list[str]:
    if sample.answerable is True and not sample.answers:
        return ["field 'answers' is empty although 'answerable' is true"]
    if sample.answerable is False and sample.answers:
        return ["field 'answers' must be empty when 'answerable' is false"]
    if any(not answer.strip() for answer in sample.answers):
        return ["field 'answers' holds an empty answer"]
    return []


def _extra_problems(sample: Sample, num_pages: int | None) -> list[str]:
    """Return what is wrong with keys of `extra` that environments read."""
    problems = []
    try:
        crop_flags(sample)
    except UserError as error:
        problems.append(str(error).partition(", ")[2])
    window, last = sample.extra.get("window"), math.inf if num_pages is None else num_pages
    if window is not None:
        whole = isinstance(window, list | tuple) and [type(end) for end in window] == [int, int]
        if not whole or not 1 <= window[0] <= window[1] <= last:
            of = "the document" if num_pages is None else f"the {num_pages} pages of the document"
            problems.append(
                f"field 'extra.window' must be the first and the last of some pages of {of}, found {window!r}"
            )
    return problems


def _evidence_problems(sample: Sample, num_pages: int | None) -> list[str]:
    pages, problems = sample.evidence_pages, []
    if list(pages) != sorted(set(pages)):
        problems.append(f"field 'evidence_pages' must be sorted and distinct, found {list(pages)}")
    of, last = ("", math.inf) if num_pages is None else (f" of a document of {num_pages} pages", num_pages)
    problems += [
        f"field 'evidence_pages': there is no page {page}{of} (pages count from 1)"
        for page in pages
        if not 1 <= page <= last
    ]
    for page, boxes in sorted(sample.evidence_boxes.items()):
        if page not in pages:
            problems.append(f"field 'evidence_boxes': page {page} is not among 'evidence_pages'")
        problems += fields.box_problems("evidence_boxes", page, boxes)
    return problems


def _page_id_problems(sample: Sample) -> list[str]:
    try:
        gold = sample.gold_pages
    except UserError as error:
        return [str(error)]
    own = {page for doc_id, page in gold if doc_id == sample.doc_id}
    if sample.extra.get("page_ids") is not None and own != set(sample.evidence_pages):
        return [
            f"field 'extra.page_ids' cites pages {sorted(own)} of {sample.doc_id!r}, but 'evidence_pages' "
            f"holds {list(sample.evidence_pages)}"
        ]
    return []
