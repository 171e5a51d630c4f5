"""Names of pages and of parts of pages."""

from __future__ import annotations

from dataclasses import dataclass

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import id_problem

Box = tuple[float, float, float, float]
"""(left, top, right, bottom) as fractions of a page's width and height, in [0, 1]."""


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
            raise UserError(f"page {self.page!r} of document {self.doc_id!r}: pages are whole numbers from 1")

    def __str__(self) -> str:
        return f"{self.doc_id}#{self.page}"

    @classmethod
    def parse(cls, text: str) -> PageRef:
        """Read `doc_id#page`, the form that `str()` writes; the id itself may hold `#`.

        Raises:
            UserError: `text` is not of that form.
        """
        doc_id, _, number = text.rpartition("#")
        if not doc_id or not (number.isascii() and number.isdigit()):
            raise UserError(f"{text!r} is not a page reference: write <document id>#<page>, pages from 1")
        return cls(doc_id, int(number))


@dataclass(frozen=True, order=True, slots=True)
class PageRegion:
    """A rectangle of a page."""

    page: PageRef
    box: Box

    def __post_init__(self) -> None:
        if not is_inside(self.box):
            raise UserError(
                f"region {self.box} of {self.page}: expected (left, top, right, bottom) with "
                "0 <= left < right <= 1 and 0 <= top < bottom <= 1"
            )


def is_inside(box: Box) -> bool:
    """Whether a box lies inside its page and is not empty."""
    left, top, right, bottom = box
    # written so that NaN fails too
    return 0 <= left < right <= 1 and 0 <= top < bottom <= 1
