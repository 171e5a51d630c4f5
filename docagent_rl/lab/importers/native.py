"""Rows as a benchmark has them, the draft of a question made of one, and lists written as text."""

import ast
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from docagent_rl.base.text import composed, id_problem
from docagent_rl.samples.sample import Box, Page, Split, as_whole

LONGEST_TEXT = 100_000
"""Characters of a question or an answer, and of a text that is parsed as a list."""
LONGEST_ID = 200
"""Bytes of an id: it becomes the name of a file."""

NO_ANSWER = "there is no reference answer"
"""The reason to skip a row whose answer the benchmark keeps to itself, or lacks."""

T = TypeVar("T")


class Skip(Exception):  # noqa: N818 - no error: the row is left out and counted
    """A row that no sample can be made of; the message is the reason under which it is counted."""


def nested(values: Any, *names: str) -> Any:
    """Return a field of an object, or of an object in it; None where there is none."""
    for name in names:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def name_of(field: str) -> str:
    """Return the name of a field that may lie within objects, or be one of several
    (`NativeRow.get`).
    """
    return field.partition("|")[0].rpartition(".")[2]


@dataclass(slots=True)
class NativeRow:
    """A row of a benchmark's file; readers raise `Skip` naming the field."""

    path: Path
    number: int
    """In the file, from 0."""
    values: Any
    """A mapping, when the file is well."""
    dataset: str
    split: Split | None = None
    """None: no split that is known."""
    label: str = ""
    """The name of its file within the download, for ids that are built."""

    def get(self, field: str) -> Any:
        """Return a field as it stands; None where there is none.

        A field inside of objects is named after these (`meta_info.uid`). Of several
        (`a|meta_info.b`) the first counts that is there; `name_of` is what messages call it.
        """
        if not isinstance(self.values, Mapping):
            raise Skip("the row is no object")
        found = (nested(self.values, *place.split(".")) for place in field.split("|"))
        return next((value for value in found if value is not None), None)

    def text(self, field: str) -> str:
        """Return a text that is not blank."""
        value = self.get(field)
        name = name_of(field)
        if not isinstance(value, str) or not value.strip() or len(value) > LONGEST_TEXT:
            raise Skip(f"field {name!r} is missing, blank, too long or no text")
        return value

    def id(self, field: str) -> str:
        """Return a text or a whole number, as text."""
        value = self.get(field)
        found = str(value) if type(value) is int else self.text(field)
        if problem := id_problem(found):
            raise Skip(f"field {name_of(field)!r}: {problem}")
        return found

    def document(self, field: str) -> str:
        """Return the name of a document, without `.pdf`, that can be the name of a file."""
        return document_id(self.id(field), name_of(field))


@dataclass(slots=True)
class ImportedQuestion:
    """A question whose pages and boxes are still the benchmark's own."""

    row: NativeRow
    question_id: str
    split: Split
    doc_id: str
    question: str
    answers: tuple[str, ...] = ()
    gold: Any = None
    """The gold value with its JSON type, as official scorers get it."""
    native_id: Any = None
    answerable: bool | None = True
    answer_format: str = "string"
    cites: list[Page] = field(default_factory=list)
    """Pages as the benchmark counts them."""
    native_pages: Any = None
    """The field that `cites` were read from."""
    boxes: list[tuple[Page, Box]] = field(default_factory=list)
    """On cited pages, as fractions of the page."""
    in_pixels: bool = False
    """Boxes are pixels of the page at 200 dpi instead."""
    crops: dict[Page, bool] = field(default_factory=dict)
    """Pages that have to be magnified, or not, where the benchmark says so."""
    sources: tuple[str, ...] = ()
    num_pages: int | None = None
    """Length of the document by the row."""
    extra: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    """Reasons that the report counts beside the rows it skips."""

    def parse(self, name: str, read: Callable[[Any], T], empty: T) -> T:
        """Read a field that may be written as text; keep one that cannot be read in
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
        """Cite the pages in a field, in the question's own document."""
        self.native_pages = self.row.get(name)
        self.cites = [(self.doc_id, page) for page in self.parse(name, as_pages, [])]

    def label(self, name: str) -> None:
        """Set the labels of the evidence by a field; one alone may stand without a list."""

        def read(value: Any) -> list[str]:
            alone = isinstance(value, str) and not value.strip().startswith("[")
            return [value] if alone else as_texts(value)

        self.sources = tuple(self.parse(name, read, []))

    def keep(self, *names: str) -> None:
        """Put fields that have no home in a sample into `extra` under their own names."""
        found = {name_of(name): self.row.get(name) for name in names}
        self.extra.update({name: value for name, value in found.items() if value is not None})

    def measure(self, name: str) -> None:
        """Set the length of the document by a field, if it is a number of pages."""
        length = self.row.get(name)
        self.num_pages = length if type(length) is int and length > 0 else None


def given_answers(values: list[str]) -> tuple[str, ...]:
    """Return answers without those that are blank."""
    return tuple(value for value in values if value.strip())


def document_id(text: str, name: str) -> str:
    """Return the id of a document from its native name without a last `.pdf`; skip one that names
    no file.
    """
    found = without_pdf(text)
    if not is_file_name(found) or found.lower().endswith(".pdf"):
        raise Skip(f"field {name!r} is no name of a document")
    return found


def without_pdf(name: str) -> str:
    """Return the name of a file without `.pdf`, `composed`."""
    return composed(name[: -len(".pdf")] if name.lower().endswith(".pdf") else name)


def is_file_name(text: str) -> bool:
    """Return whether a text can be the name of a file, in any folder and no other."""
    plain = text.isprintable() and text == text.strip() and not text.startswith(".")
    short = 0 < len(text.encode("utf-8", "replace")) <= LONGEST_ID
    return plain and short and not set(text) & set("/\\")


def is_span(value: Any) -> bool:
    """Return whether a value is a list of two whole numbers."""
    return isinstance(value, list) and [type(end) for end in value] == [int, int]


def parse_literal(text: str) -> Any:
    """Return the value that a text spells: JSON, else a literal of Python (`"['Chart']"`), not
    evaluated.

    It is text, a number, true, false, None, or a list or dict of these (tuples become lists); a
    text that spells no such value, or is longer than `LONGEST_TEXT`, raises a `ValueError`.
    """
    if len(text) > LONGEST_TEXT:
        raise ValueError(f"a text of {len(text)} characters is not parsed")
    try:
        # NaN and the infinities, which are no JSON, reach `int`, which refuses them
        return json.loads(text, parse_constant=int)
    except (ValueError, RecursionError):
        pass
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of backslashes in other people's texts
            # tuples become lists, and what JSON has no word for is refused
            return json.loads(json.dumps(ast.literal_eval(text.strip())))
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError) as error:
        raise ValueError(f"not a literal: {text[:80]!r}") from error


def as_list(value: Any) -> list[Any]:
    """Return a list that may have been written as text; a `ValueError` says that it is none."""
    found = parse_literal(value) if isinstance(value, str) else value
    if not isinstance(found, list | tuple):
        raise ValueError(f"not a list: {str(value)[:80]!r}")
    return list(found)


def as_texts(value: Any) -> list[str]:
    """Return a list of texts and numbers as texts, numbers as JSON writes them; else a
    `ValueError`.
    """
    items = as_list(value)
    if not all(isinstance(item, str) or type(item) in (int, float) for item in items):
        raise ValueError(f"not a list of texts: {str(value)[:80]!r}")
    return [item if isinstance(item, str) else json.dumps(item, allow_nan=False) for item in items]


def as_pages(value: Any) -> list[int]:
    """Return a list of page numbers: integers, their digits as text, or whole floats; else a
    `ValueError`.
    """
    pages = [as_whole(item) for item in as_list(value)]
    for page in pages:
        if type(page) is not int:
            raise ValueError(f"not a page number: {str(page)[:80]!r}")
    return pages
