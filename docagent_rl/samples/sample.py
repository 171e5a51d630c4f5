"""The canonical sample: one question about one document, whatever dataset it came from.

`evidence_boxes` and `extra.crop_required` go by pages of the question's own document; those of further ones
(`extra.page_ids`) are in `extra.other_boxes` and `extra.other_crop_required`, by `doc#page`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
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
OTHER_BOXES = "other_boxes"
OTHER_FLAGS = "other_crop_required"

Page = tuple[str, int]
"""Id of a document, and a page of it from 1."""


@dataclass(frozen=True)
class Sample:
    """One question with its gold answer and evidence; `validation.validate_sample` checks the values."""

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
        """Build a sample from a decoded JSON object; a `UserError` names the field that is wrong."""
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
        return {name: getattr(self, name) for name in fields.FIELDS} | {
            "split": self.split.value,
            "answers": list(self.answers),
            "evidence_pages": list(self.evidence_pages),
            "evidence_boxes": boxes,
            "evidence_sources": list(self.evidence_sources),
            "extra": dict(self.extra),
        }

    @classmethod
    def from_json(cls, text: str) -> Sample:
        """Parse one JSON line; a text that holds a lone surrogate is refused."""
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
    """Split `"doc#page"` into `(doc_id, page)`; the document id may itself hold `#`."""
    doc_id, _, page = page_id.rpartition("#") if isinstance(page_id, str) else ("", "", "")
    if not (doc_id and fields.is_digits(page) and int(page) >= 1):
        raise UserError(f"field 'extra.page_ids': {page_id!r} is not 'doc#page' with a page number from 1")
    if problem := id_problem(doc_id):
        raise UserError(f"field 'extra.page_ids': {problem}")
    return doc_id, int(page)


def crop_flags(sample: Sample) -> dict[int, bool]:
    """Return the flags of pages that have to be magnified, or not: `extra["crop_required"]`."""
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


def gold_boxes(sample: Sample) -> dict[Page, tuple[Box, ...]]:
    """Return the boxes of all pages by document and page; the question's own document comes first."""
    own = {(sample.doc_id, page): tuple(boxes) for page, boxes in sorted(sample.evidence_boxes.items())}
    others: dict[Page, tuple[Box, ...]] = {}
    for name, page, value in _entries(sample, OTHER_BOXES):
        try:
            others[page] = fields.box_list(f"extra.{OTHER_BOXES}.{name}", value)
        except UserError as error:
            raise UserError(f"question {sample.question_id!r}, {error}") from error
    return {**own, **dict(sorted(others.items()))}


def magnified_boxes(sample: Sample) -> dict[Page, tuple[Box, ...]]:
    """Return the gold boxes of pages that have to be magnified: all but those that a flag denies."""
    flags: dict[Page, bool] = {(sample.doc_id, page): flag for page, flag in crop_flags(sample).items()}
    for name, page, flag in _entries(sample, OTHER_FLAGS):
        if not isinstance(flag, bool):
            raise UserError(
                f"question {sample.question_id!r}, field 'extra.{OTHER_FLAGS}.{name}': expected true or "
                f"false, found {flag!r}"
            )
        flags[page] = flag
    return {page: boxes for page, boxes in gold_boxes(sample).items() if boxes and flags.get(page, True)}


def _entries(sample: Sample, key: str) -> Iterator[tuple[str, Page, Any]]:
    """Yield the entries of `extra` for pages of further documents: name, page, value."""
    found = sample.extra.get(key)
    if found is None:
        return
    where = f"question {sample.question_id!r}, field 'extra.{key}'"
    if not isinstance(found, Mapping):
        raise UserError(f"{where}: expected an object by 'doc#page', found {type(found).__name__}")
    for name, value in found.items():
        try:
            page = parse_page_id(name)
        except UserError as error:
            raise UserError(f"{where}: {name!r} is not 'doc#page' with a page number from 1") from error
        if page[0] == sample.doc_id:
            own = {OTHER_BOXES: "evidence_boxes", OTHER_FLAGS: "extra.crop_required"}[key]
            raise UserError(f"{where}: {name!r} is of the question's own document; put it into {own!r}")
        yield name, page, value


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
                    try:
                        samples.append(Sample.from_json(line))
                    except UserError as error:
                        raise UserError(f"{source}:{number}: {error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{source}: not UTF-8 text ({error}); a Parquet file is read elsewhere") from error
    return samples


def write_jsonl(samples: Iterable[Sample], path: str | Path) -> Path:
    """Write samples atomically, one JSON object a line."""
    return atomic_write(path, json_lines(samples))


def json_lines(samples: Iterable[Sample]) -> str:
    """Return the file that `write_jsonl` writes."""
    return "".join(f"{sample.to_json()}\n" for sample in samples)
