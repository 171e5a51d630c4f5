"""References to documents, pages and regions, and the entries of outlines."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum

from docagent_rl.base.errors import UserError
from docagent_rl.base.text import composed, id_problem

Box = tuple[float, float, float, float]
"""(left, top, right, bottom) as fractions of a page's width and height, in [0, 1]."""


class Rotation(IntEnum):
    """Degrees by which a picture is turned clockwise."""

    NONE = 0
    RIGHT = 90
    OVER = 180
    LEFT = 270


@dataclass(frozen=True, order=True, slots=True)
class PageRef:
    """A page of a document; references sort by document, then by page number."""

    doc_id: str
    page: int
    """1-based."""

    def __post_init__(self) -> None:
        if not self.doc_id:
            raise UserError("a page reference needs a document id")
        if problem := id_problem(self.doc_id):
            raise UserError(f"document {problem}")
        if isinstance(self.page, bool) or not isinstance(self.page, int) or self.page < 1:
            raise UserError(
                f"page {self.page!r} of document {self.doc_id!r}: pages are whole numbers from 1"
            )

    def __str__(self) -> str:
        return f"{self.doc_id}#{self.page}"

    @classmethod
    def parse(cls, text: str) -> PageRef:
        """Parse `doc_id#page`, the form that `str()` writes; the id itself may contain `#`.

        Raises:
            UserError: The text is not a page reference.
        """
        doc_id, _, number = text.rpartition("#")
        if not doc_id or not (number.isascii() and number.isdigit()):
            raise UserError(
                f"{text!r} is not a page reference: write <document id>#<page>, pages from 1"
            )
        return cls(composed(doc_id), int(number))


@dataclass(frozen=True, order=True, slots=True)
class PageRegion:
    """A rectangle on a page; one that is empty or outside of the page raises a `UserError`."""

    page: PageRef
    box: Box

    def __post_init__(self) -> None:
        if not is_inside(self.box):
            raise UserError(
                f"region {self.box} of {self.page}: expected (left, top, right, bottom) with "
                "0 <= left < right <= 1 and 0 <= top < bottom <= 1"
            )


def is_inside(box: Box) -> bool:
    """Return whether a box lies inside its page and is not empty."""
    left, top, right, bottom = box
    # written so that NaN fails too
    return 0 <= left < right <= 1 and 0 <= top < bottom <= 1


def turned_box(box: Box, turn: Rotation) -> Box:
    """Return where a box of a page is after the page has been turned."""
    left, top, right, bottom = box
    for _ in range(turn // Rotation.RIGHT):
        left, top, right, bottom = 1 - bottom, left, 1 - top, right
    return left, top, right, bottom


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A bookmark or heading of a document."""

    title: str
    level: int
    """Depth in the tree of bookmarks, 1 at the top."""
    page: int | None
    """The page it leads to, 1-based; None if it leads to no page of this document."""


def unknown_document(doc_id: str, known: Iterable[str], place: str) -> UserError:
    """Return the error for an id that is not in `place`, with the most similar known ids."""
    ids = list(known)
    hint = f"it contains {len(ids)} documents" + (f", such as {ids[0]!r}" if ids else "")
    if similar := difflib.get_close_matches(doc_id, ids, n=3):
        hint = "did you mean " + " or ".join(map(repr, similar)) + "?"
    return UserError(f"no document {doc_id!r} in {place}: {hint}")
