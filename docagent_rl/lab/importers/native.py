"""Rows of a benchmark, drafts of questions made from them, and parsing of lists written as text."""

import ast
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from docagent_rl.base.text import composed, id_problem
from docagent_rl.documents.sources import IMAGE_SUFFIXES
from docagent_rl.samples.sample import Box, Page, Split, as_whole, is_digits

LONGEST_TEXT = 100_000
"""Maximum length in characters of a question, an answer, or a text that is parsed as a list."""
LONGEST_ID = 200
"""Maximum length of an id in bytes, since it becomes a file name."""

NO_ANSWER = "there is no reference answer"
"""The reason to skip a row whose answer the benchmark withholds or lacks."""
HIDDEN = "(the answer is withheld)"
"""Stands in place of an answer that only the benchmark's server knows, so that the question can be
played.
"""

T = TypeVar("T")


class Skip(Exception):  # noqa: N818 - not an error: the row is left out and counted
    """No sample can be made from a row; the message is the reason under which it is counted."""


def nested(values: Any, *names: str) -> Any:
    """Return a field of an object, or of an object inside it; None if there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def name_of(field: str) -> str:
    """Return the short name of a field that may be nested in objects or have alternatives
    (`NativeRow.get`).
    """
    return field.partition("|")[0].rpartition(".")[2]


@dataclass(slots=True)
class NativeRow:
    """A row of a benchmark's file; its methods raise `Skip`, which names the field."""

    path: Path
    number: int
    """Number in the file, from 0."""
    values: Any
    """A mapping, if the file is valid."""
    dataset: str
    split: Split | None = None
    """None: no known split."""
    label: str = ""
    """The name of its file within the download, used for generated ids."""

    def get(self, field: str) -> Any:
        """Return the unchanged value of a field; None if there is none.

        A nested field is written with dots (`meta_info.uid`). Of alternatives (`a|meta_info.b`) the
        first that exists is used; messages call the field by its `name_of`.
        """
        if not isinstance(self.values, Mapping):
            raise Skip("the row is not an object")
        found = (nested(self.values, *place.split(".")) for place in field.split("|"))
        return next((value for value in found if value is not None), None)

    def text(self, field: str) -> str:
        """Return a text that is not blank."""
        value = self.get(field)
        name = name_of(field)
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
            raise Skip(f"field {name!r} is missing, blank, too long or not a text")
        return value

    def id(self, field: str) -> str:
        """Return a text or a whole number, as text."""
        value = self.get(field)
        found = str(value) if type(value) is int else self.text(field)
        if problem := id_problem(found):
            raise Skip(f"field {name_of(field)!r}: {problem}")
        return found

    def document(self, field: str) -> str:
        """Return the name of a document, without `.pdf`, that is valid as a file name."""
        return document_id(self.id(field), name_of(field))


@dataclass(slots=True)
class ImportedQuestion:
    """A question whose pages and boxes are still in the benchmark's own form."""

    row: NativeRow
    question_id: str
    split: Split
    doc_id: str
    question: str
    answers: tuple[str, ...] = ()
    gold: Any = None
    """The gold value with its JSON type, as official scorers expect it."""
    native_id: Any = None
    answerable: bool | None = True
    hidden: bool = False
    """The benchmark withholds the answer; `HIDDEN` then stands in its place."""
    answer_format: str = "string"
    cites: list[Page] = field(default_factory=list)
    """Pages as the benchmark counts them."""
    native_pages: Any = None
    """The value from which `cites` were read."""
    boxes: list[tuple[Page, Box]] = field(default_factory=list)
    """Boxes on cited pages, as fractions of the page."""
    in_pixels: bool = False
    """True if boxes are in pixels of the page at 200 dpi instead."""
    crops: dict[Page, bool] = field(default_factory=dict)
    """True if pages need to be magnified, if the benchmark says so."""
    sources: tuple[str, ...] = ()
    num_pages: int | None = None
    """Length of the document according to the row."""
    extra: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Remarks that the report counts, in addition to the rows it skips."""

    def parse(self, name: str, read: Callable[[Any], T], empty: T) -> T:
        """Parse a field that may be written as text; keep a value that cannot be parsed in
        `extra.parse_error`.
        """
        value = self.row.get(name)
        name = name_of(name)
        if value is None:
            return empty
        try:
            return read(value)
        except ValueError:
            self.extra.setdefault("parse_error", {})[name] = value
            self.notes.append(f"field {name!r} could not be read")
            return empty

    def cite(self, name: str) -> None:
        """Cite the pages in a field, which are in the question's own document."""
        self.native_pages = self.row.get(name)
        self.cites = [(self.doc_id, page) for page in self.parse(name, as_pages, [])]

    def label(self, name: str) -> None:
        """Set the labels of the evidence from a field; a single one may be written without a
        list.
        """

        def read(value: Any) -> list[str]:
            alone = isinstance(value, str) and not value.strip().startswith("[")
            return [value] if alone else as_texts(value)

        self.sources = tuple(self.parse(name, read, []))

    def keep(self, *names: str) -> None:
        """Copy fields that a sample has no place for to `extra`, under their own names."""
        found = {name_of(name): self.row.get(name) for name in names}
        self.extra.update({name: value for name, value in found.items() if value is not None})

    def hide(self) -> None:
        """Mark the answer as withheld: the question is kept only for a submission."""
        self.hidden = True
        self.answers = (HIDDEN,)
        self.answerable = None
        self.extra["hidden"] = True

    def measure(self, name: str) -> None:
        """Set the length of the document from a field, if it is a number of pages."""
        length = self.row.get(name)
        self.num_pages = length if type(length) is int and length > 0 else None


def given_answers(values: list[str]) -> tuple[str, ...]:
    """Return the answers that are not blank."""
    return tuple(value for value in values if value.strip())


def document_id(text: str, name: str) -> str:
    """Return the id of a document: its native name without `.pdf`; skip one that is not a valid
    file name.
    """
    found = without_pdf(text)
    if not is_file_name(found) or found.lower().endswith(".pdf"):
        raise Skip(f"field {name!r} is not the name of a document")
    return found


def without_pdf(name: str) -> str:
    """Return a file's name without `.pdf`, in Unicode's composed form."""
    return composed(name[: -len(".pdf")] if name.lower().endswith(".pdf") else name)


def is_file_name(text: str) -> bool:
    """Return whether a text is valid as the name of a file and contains no folder."""
    plain = text.isprintable() and text == text.strip() and not text.startswith(".")
    short = 0 < len(text.encode("utf-8", "replace")) <= LONGEST_ID
    return plain and short and not set(text) & set("/\\")


def image_page(name: str) -> Page:
    """Return document and page, from 1, of a page image named `<document>_<page>`.

    The page follows the last underscore; folders before the name are dropped. A name of another
    form raises a `ValueError`.
    """
    place = PurePosixPath(name.replace("\\", "/"))
    stem = place.stem if place.suffix.lower() in IMAGE_SUFFIXES else place.name
    document, _, page = stem.rpartition("_")
    document = without_pdf(document)
    if not is_digits(page) or not is_file_name(document):
        raise ValueError(f"not the image of a page: {name[:80]!r}")
    return document, int(page)


def is_span(value: Any) -> bool:
    """Return whether a value is a list of two whole numbers."""
    return isinstance(value, list) and [type(end) for end in value] == [int, int]


def parse_literal(text: str) -> Any:
    """Return the value of a text that is JSON or a Python literal (`"['Chart']"`), without
    evaluating it.

    It is text, a number, true, false, None, or a list or dict of these (tuples become lists). A
    text that is no such value, or is longer than `LONGEST_TEXT`, raises a `ValueError`.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a text of {len(text)} characters is too long to be parsed")
    try:
        # NaN and infinities, which are not valid JSON, are passed to `int`, which raises for them
        return json.loads(text, parse_constant=int)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about backslashes in other people's texts
            # the round trip turns tuples into lists, and raises for what JSON cannot express
            return json.loads(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"not a literal: {text[:80]!r}") from error


def as_list(value: Any) -> list[Any]:
    """Return a list that may be written as text; raise `ValueError` if it is not a list."""
    found = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise ValueError(f"not a list: {str(value)[:80]!r}")
    return list(found)


def as_texts(value: Any) -> list[str]:
    """Return a list of texts and numbers as texts, numbers as in JSON; raise `ValueError` for
    anything else.
    """
    items = as_list(value)
    if not all(isinstance(item, str) or type(item) in (int, float) for item in items):
        raise ValueError(f"not a list of texts: {str(value)[:80]!r}")
    return [item if isinstance(item, str) else json.dumps(item, allow_nan=False) for item in items]


def as_pages(value: Any) -> list[int]:
    """Return a list of page numbers, which may be integers, digits as text, or whole floats; raise
    `ValueError` for anything else.
    """
    pages = [as_whole(item) for item in as_list(value)]
    for page in pages:
        if type(page) is not int:
            raise ValueError(f"not a page number: {str(page)[:80]!r}")
    return pages
