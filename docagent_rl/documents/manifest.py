"""The records of a store: a JSON file a document, one a finished range of pages."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import is_sealed, seal
from docagent_rl.base.text import id_problem
from docagent_rl.documents.objects import ObjectKind, is_digest, read_bytes
from docagent_rl.documents.references import OutlineEntry, Rotation

if TYPE_CHECKING:
    from pydantic import TypeAdapter


BY_LAYOUT = " headings=layout"
"""The end of the settings of a document whose headings were looked for by its layout."""


class TextSource(StrEnum):
    """Sources of the text of a page: the PDF's text layer, its picture, or none."""

    LAYER = "layer"
    OCR = "ocr"
    NONE = "none"


class TextReason(StrEnum):
    """Reasons for the source of a page's text; `page_text.assess` defines the states of layers."""

    SOUND = "sound"
    OFF = "ocr_off"
    """OCR is off: the text layer was taken as it is."""
    BLANK = "blank"
    """The page shows nothing that OCR could read."""
    EMPTY = "empty"
    GARBLED = "garbled"
    SPARSE = "sparse"
    ASKED = "asked"
    """OCR was to read every page."""
    NO_BETTER = "ocr_no_better"
    """The text layer looked broken, but OCR did not find that it is."""
    NOTHING_READ = "nothing_read"
    """None, or the text layer as it is: OCR read no letter and no digit."""


@dataclass(frozen=True, slots=True)
class TextReading:
    """The source of a page's text."""

    source: TextSource
    reason: TextReason
    engine: str | None = None
    """Name and version of the engine that read the picture, if any, whether its text was taken or
    not.
    """


class Finding(StrEnum):
    """Defects of a page that a reader should know of before relying on its picture or text."""

    MISSING_GLYPHS = "missing_glyphs"
    """Letters of the text layer have no ink in the picture."""
    REDRAWN = "redrawn"
    """The picture is by the second renderer: the first one left letters out."""
    WRONG_MAP = "wrong_map"
    """The text layer gives other letters than the picture shows."""
    XFA_STUB = "xfa_stub"
    """The page asks the reader to wait for a form (XFA) that no renderer here draws."""
    TURNED = "turned"
    """The picture was not upright as the file has it."""
    DOUBTFUL_OCR = "doubtful_ocr"
    """OCR was unsure of much of what it read."""


@dataclass(frozen=True, slots=True)
class Source:
    """The file or folder that a document was made from."""

    name: str
    """Path inside the ingested folder."""
    sha256: str
    """Digest of a PDF's bytes, or of the SHA-256 digests of page images, in page order."""


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A stored page; a hash that is no SHA-256 raises a `ValueError`: it becomes a part of a
    path.
    """

    width: int
    height: int
    image: str
    """SHA-256 of the JPEG file."""
    text: str | None
    """SHA-256 of the text; None: the page has none."""
    reading: TextReading | None = None
    """None: the page was made without text (`derived`)."""
    described: str | None = None
    """SHA-256 of a model's description of what the picture shows (`describing`); None: there is
    none.
    """
    turned: Rotation = Rotation.NONE
    """How the picture was turned to be upright (`references.turned_box`)."""
    before_turn: str | None = None
    """SHA-256 of the picture as it was read, which is not stored; None: it was not turned."""
    findings: tuple[Finding, ...] = ()
    """What was found wrong with the page when it was ingested; each once, in the order of
    `Finding`.
    """

    def __post_init__(self) -> None:
        for name in ("image", "text", "described", "before_turn"):
            digest = getattr(self, name)
            if digest is not None and not is_digest(digest):
                raise ValueError(f"{name}: {digest!r} is no SHA-256")

    def objects(self) -> list[tuple[str, ObjectKind]]:
        """Return the digests of its picture, and of its text and description, if it has any."""
        texts = [
            (digest, ObjectKind.TEXT)
            for digest in (self.text, self.described)
            if digest is not None
        ]
        return [(self.image, ObjectKind.IMAGE), *texts]


@dataclass(frozen=True, slots=True)
class Unread:
    """Headings that were looked for by the layout and not found out."""

    reason: str
    may_pass: bool
    """It was for want of time, memory or Java: the next ingest tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A stored document."""

    schema_version: Literal[1] = 1
    doc_id: str
    source: Source
    settings: str
    """The key of the render settings (`RenderSettings.pdf_key` or `image_key`)."""
    software: str
    """The renderer with its version: for the record only."""
    outline: tuple[OutlineEntry, ...]
    """The bookmarks, or the headings that were found by the layout."""
    pages: tuple[PageEntry, ...]
    title: str = ""
    """The title that the PDF states, on one line; empty where it states none, and for page
    images.
    """
    unread: Unread | None = None
    """Why the layout gave no headings; None: it was read, or not asked."""

    @property
    def is_bookmarked(self) -> bool:
        """True if the outline is the file's own: its author knows what it lacks."""
        return not self.settings.endswith(BY_LAYOUT)

    def __post_init__(self) -> None:
        if problem := id_problem(self.doc_id):
            raise ValueError(f"doc_id {problem}")


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEntry:
    """A finished range of pages of a document that is still being ingested."""

    schema_version: Literal[1] = 1
    first: int
    """Number of the first page."""
    pages: tuple[PageEntry, ...]
    headings: tuple[OutlineEntry, ...] = ()
    """Headings of the whole document by its layout, in the range of its first pages."""
    unread: Unread | None = None
    """See `Manifest`."""


RecordT = TypeVar("RecordT", Manifest, ChunkEntry)


def dump_record(record: Manifest | ChunkEntry) -> str:
    """Return the file of a record, with its checksum (`docagent_rl.base.io`)."""
    return seal(json.dumps(asdict(record), indent=1, ensure_ascii=False))


def read_record(kind: type[RecordT], path: Path) -> RecordT:
    """Read a manifest or a chunk record and verify its checksum.

    Raises:
        FileNotFoundError: There is no such file.
        UserError: The file is damaged or of another version, or may not be read.
        InfrastructureError: The file system fails.
    """
    from pydantic import (
        ValidationError,
    )  # takes as long to import as four pages to render: when used

    data = read_bytes(path)
    try:
        if not is_sealed(data):
            raise ValueError("it has no checksum")
        return _adapter(kind).validate_json(data)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"]) or "file"
        raise _damaged(path, f"{field}: {problem['msg']}") from error
    except ValueError as error:
        raise _damaged(path, str(error)) from error


@cache
def _adapter(kind: type[RecordT]) -> TypeAdapter[RecordT]:
    from pydantic import TypeAdapter

    return TypeAdapter(kind)


def _damaged(path: Path, problem: str) -> UserError:
    return UserError(
        f"{path}: damaged, or written by another version ({problem}); delete it and ingest the "
        "document again"
    )
