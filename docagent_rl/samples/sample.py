"""The canonical sample: one question about one document, whatever dataset it came from.

The keys of `evidence_boxes` and `extra.crop_required` are pages of the question's own document;
those of further documents (`extra.page_ids`) are in `extra.other_boxes` and
`extra.other_crop_required`, by `doc#page`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeGuard

from pydantic import (
    AllowInfNan,
    BeforeValidator,
    ConfigDict,
    Strict,
    StrictBool,
    StrictInt,
    StrictStr,
    TypeAdapter,
    ValidationError,
)

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.base.text import composed, id_problem, lone_surrogate, unique_keys
from docagent_rl.samples.answer_format import LISTS, folded_format, format_problem
from docagent_rl.samples.window import window_of

LONGEST_TEXT = 65_536
"""The maximum number of characters of a question, and of an answer."""
LONGEST_LINE = 4 << 20
"""The maximum number of characters of one sample as JSON."""
OTHER_BOXES = "other_boxes"
OTHER_FLAGS = "other_crop_required"

Page = tuple[str, int]
"""The id of a document, and a page number from 1."""


Box = tuple[float, float, float, float]
"""`(x0, y0, x1, y1)` as fractions of page width and height in [0, 1], origin at the top left."""


class Split(StrEnum):
    """The part of a dataset to which a question belongs (a native `dev` is `val`)."""

    TRAIN = "train"
    VAL = "val"
    TEST = "test"


class EvidenceSource(StrEnum):
    """The kind of content that is evidence, in MMLongBench-Doc's terms."""

    TEXT = "Pure-text (Plain-text)"
    TABLE = "Table"
    CHART = "Chart"
    LAYOUT = "Generalized-text (Layout)"


def is_digits(text: Any) -> TypeGuard[str]:
    """Return whether a value is a text of at most nine digits from 0 to 9."""
    return isinstance(text, str) and text.isascii() and text.isdecimal() and len(text) < 10


def as_whole(value: Any) -> Any:
    """Convert a text of digits, or a float without a fraction, to an integer; keep anything
    else.
    """
    text = value.strip() if isinstance(value, str) else value
    return (
        int(text) if is_digits(text) or (isinstance(text, float) and text.is_integer()) else value
    )


# keys in JSON are always text
PageKey = Annotated[int, Strict(), BeforeValidator(lambda key: int(key) if is_digits(key) else key)]
_Edge = Annotated[float, Strict(), AllowInfNan(False)]
Boxes = tuple[tuple[_Edge, _Edge, _Edge, _Edge], ...]


def type_problems(error: ValidationError, *field: str) -> list[str]:
    """Return one sentence per problem, which names the location (within `field`) and the value."""
    problems = []
    for each in error.errors(include_url=False):
        place = ".".join(str(part)[:80] for part in (*field, *each["loc"]))
        value = each["input"]
        found = (
            ""
            if each["type"] == "missing"
            else f", found {type(value).__name__} {repr(value)[:80]}"
        )
        where = f"field '{place}': " if place else ""
        problems.append(f"{where}{each['msg']}{found}")
    return problems


@dataclass(frozen=True)
class Sample:
    """One question with its gold answer and evidence.

    `validation.validate_sample` checks the values.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    question_id: StrictStr
    """Unique within (dataset, split), stable across runs."""
    dataset: StrictStr
    """The lower-case name of the source, e.g. `slidevqa` or `synthetic`."""
    split: Split
    doc_id: StrictStr
    """The document id: its path below the ingested folder, with slashes, without `.pdf`."""
    question: StrictStr
    answers: tuple[StrictStr, ...]
    """Alternative answers, or the items of a list answer; empty if unanswerable or hidden."""
    answer_format: StrictStr = "string"
    """One of `answer_format.LISTS` or `SINGLE`, spelled as the dataset's official scorer
    expects.
    """
    evidence_pages: tuple[StrictInt, ...] = ()
    """1-based physical pages, sorted and distinct."""
    evidence_boxes: Mapping[PageKey, Boxes] = field(default_factory=dict)
    """Boxes by 1-based page."""
    evidence_sources: tuple[StrictStr, ...] = ()
    """The dataset's own labels, e.g. `Table` or `Chart`."""
    answerable: StrictBool | None = True
    """`None` if unknown, as in test sets with hidden answers."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """`gold`, `num_pages`, `native_id`, `row`, and fields of the dataset without a counterpart
    above.
    """

    def __post_init__(self) -> None:
        for name in ("question_id", "dataset", "doc_id"):
            if problem := id_problem(getattr(self, name)):
                raise UserError(f"field {name!r}: {problem}")
        # normalise like document ids, since files may come from another system than the questions
        object.__setattr__(self, "doc_id", composed(self.doc_id))
        if problem := format_problem(self.answer_format):
            raise UserError(f"field 'answer_format': {problem}")

    @property
    def lists_answers(self) -> bool:
        """Return whether the answer is a list of `answers`; otherwise each of them is an answer."""
        return folded_format(self.answer_format) in LISTS

    @property
    def gold_pages(self) -> frozenset[tuple[str, int]]:
        """The evidence in play, as `(doc_id, page)` pairs: `labelled_pages` without the pages of
        its document outside its window.
        """
        window = window_of(self.extra)
        return frozenset(
            (doc_id, page)
            for doc_id, page in self.labelled_pages
            if window is None or doc_id != self.doc_id or page in window
        )

    @property
    def labelled_pages(self) -> frozenset[tuple[str, int]]:
        """The evidence as `(doc_id, page)` pairs, inside and outside the window.

        They come from `extra["page_ids"]` (strings `"doc#page"`) if it exists, since a question may
        cite pages of several documents; otherwise from `evidence_pages` of the sample's document.
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

        MP-DocVQA asks about windows of longer documents. Here each window is a separate document,
        and `extra["native_doc_id"]` names the document that it is part of.
        """
        native = self.extra.get("native_doc_id")
        return composed(native) if isinstance(native, str) and native else self.doc_id

    @property
    def document_keys(self) -> frozenset[str]:
        """The key of the question's document, and the ids of other documents with evidence
        pages.
        """
        others = {doc_id for doc_id, _ in self.labelled_pages if doc_id != self.doc_id}
        return frozenset({self.document_key, *others})

    @classmethod
    def from_dict(cls, data: Any) -> Sample:
        """Build a sample from a decoded JSON object with all fields.

        Raises a `UserError` that names the fields that are wrong or missing.
        """
        try:
            sample = read_fields(data)
        except ValidationError as error:
            raise UserError("; ".join(type_problems(error))) from None
        if missing := [name for name in FIELDS if name not in data]:
            raise UserError(f"field {missing[0]!r} is missing")
        return sample

    def to_dict(self) -> dict[str, Any]:
        """Return a JSON-ready dictionary, with fields in the class's order and pages as string
        keys.
        """
        boxes = {
            str(page): [list(box) for box in found]
            for page, found in sorted(self.evidence_boxes.items())
        }
        return {name: getattr(self, name) for name in FIELDS} | {
            "split": self.split.value,
            "answers": list(self.answers),
            "evidence_pages": list(self.evidence_pages),
            "evidence_boxes": boxes,
            "evidence_sources": list(self.evidence_sources),
            "extra": dict(self.extra),
        }

    @classmethod
    def from_json(cls, text: str) -> Sample:
        """Parse one line of JSON (`decode_object`) that has all fields."""
        return cls.from_dict(decode_object(text))

    def to_json(self) -> str:
        """Return one line of JSON with a stable key order; equal samples give equal text."""
        try:
            text = json.dumps(self.to_dict(), ensure_ascii=False, allow_nan=False)
            text.encode("utf-8")  # raises for lone surrogates, which no file can contain
            return text
        except (TypeError, ValueError) as error:
            raise UserError(
                f"sample {self.question_id!r} cannot be written as JSON: {error}"
            ) from error


FIELDS = tuple(Sample.__dataclass_fields__)
"""The names of a sample's fields, in their order."""
read_fields = TypeAdapter(Sample).validate_python
"""Parses a decoded JSON object, in which fields with a default may be missing.

Raises `ValidationError`.
"""


def decode_object(line: str) -> Mapping[str, Any]:
    """Decode a JSON object.

    Raises a `UserError` for anything else, and for NaN, lone surrogates and duplicate keys.
    """
    if len(line) > LONGEST_LINE:
        raise UserError(
            f"{len(line):,} characters, but a question may have at most {LONGEST_LINE:,}"
        )
    try:
        data = json.loads(line, parse_constant=_no_constant, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as error:
        # JSONDecodeError is a ValueError, and so are integers of thousands of digits
        raise UserError(f"not valid JSON: {error}") from error
    if not isinstance(data, Mapping):
        hint = "a file of questions has one object per line, without brackets around them"
        raise UserError(f"expected a JSON object, found {type(data).__name__}; {hint}")
    if half := lone_surrogate(json.dumps(data, ensure_ascii=False)):
        raise UserError(
            f"a text contains half a character ({half}, a lone surrogate), which neither files nor "
            "tokenizers accept: correct the text"
        )
    return data


def _no_constant(name: str) -> None:
    raise UserError(f"{name} is not JSON; write null or a number")


def parse_page_id(page_id: Any, field: str = "extra.page_ids") -> Page:
    """Split `"doc#page"` into `(doc_id, page)`; the document id may contain `#` itself."""
    doc_id, _, page = page_id.rpartition("#") if isinstance(page_id, str) else ("", "", "")
    if not (doc_id and is_digits(page) and int(page) >= 1):
        raise UserError(f"field '{field}': {page_id!r} is not 'doc#page' with a page number from 1")
    if problem := id_problem(doc_id):
        raise UserError(f"field '{field}': {problem}")
    return composed(doc_id), int(page)


def gold_boxes_of(sample: Sample) -> dict[Page, tuple[Box, ...]]:
    """Return the gold boxes by document and page; the question's own document comes first."""
    own = {
        (sample.doc_id, page): tuple(boxes) for page, boxes in sorted(sample.evidence_boxes.items())
    }
    return {
        **own,
        **dict(sorted(_of_others(sample, OTHER_BOXES, "evidence_boxes", _BOXES).items())),
    }


def magnified_boxes(sample: Sample) -> dict[Page, tuple[Box, ...]]:
    """Return the gold boxes of pages that must be magnified.

    These are all pages with boxes except those whose flag is false. Flags are in
    `extra["crop_required"]`, by page, and `extra["other_crop_required"]`.
    """
    own = _read(sample, "crop_required", _FLAGS)
    flags = {(sample.doc_id, page): flag for page, flag in own.items()}
    flags |= _of_others(sample, OTHER_FLAGS, "extra.crop_required", _OTHER_FLAGS)
    return {
        page: boxes
        for page, boxes in gold_boxes_of(sample).items()
        if boxes and flags.get(page, True)
    }


_FLAGS = TypeAdapter(dict[PageKey, StrictBool])
_OTHER_FLAGS = TypeAdapter(dict[str, StrictBool])
_BOXES = TypeAdapter(dict[str, Boxes])


def _of_others(sample: Sample, key: str, own: str, kind: TypeAdapter[Any]) -> dict[Page, Any]:
    """Return the values of `extra[key]` for pages of further documents, by page.

    `own` names the field for pages of the question's own document.
    """
    found = {}
    for name, value in _read(sample, key, kind).items():
        page = parse_page_id(name, f"extra.{key}")
        if page[0] == sample.doc_id:
            raise UserError(
                f"question {sample.question_id!r}, field 'extra.{key}': {name!r} belongs to the "
                f"question's own document; move it to {own!r}"
            )
        found[page] = value
    return found


def _read(sample: Sample, key: str, kind: TypeAdapter[Any]) -> Any:
    """Return a mapping in `extra`; empty if it is missing."""
    if (value := sample.extra.get(key)) is None:
        return {}
    try:
        return kind.validate_python(value)
    except ValidationError as error:
        problem = type_problems(error, f"extra.{key}")[0]
        raise UserError(f"question {sample.question_id!r}, {problem}") from None


def write_jsonl(samples: Iterable[Sample], path: str | Path) -> Path:
    """Write samples atomically, one JSON object per line."""
    return atomic_write(path, json_lines(samples))


def json_lines(samples: Iterable[Sample]) -> str:
    """Return the contents of the file that `write_jsonl` writes."""
    return "".join(f"{sample.to_json()}\n" for sample in samples)
