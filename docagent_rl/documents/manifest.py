"""The records of a store: one JSON file per document and per finished range of pages."""

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
"""Suffix of the settings of a document whose headings were looked for by its layout."""


class TextSource(StrEnum):
    """Sources of the text of a page: the PDF's text layer, its picture, the user, or none."""

    LAYER = "layer"
    OCR = "ocr"
    OWN = "own"
    NONE = "none"


class TextReason(StrEnum):
    """Reasons for the source of a page's text; see `page_text.assess` for those of text layers."""

    SOUND = "sound"
    OFF = "ocr_off"
    """OCR is off: the text layer was taken as it is."""
    BLANK = "blank"
    """The page shows nothing that OCR could read."""
    EMPTY = "empty"
    GARBLED = "garbled"
    SPARSE = "sparse"
    ASKED = "asked"
    """Every page was to be read by OCR."""
    NO_BETTER = "ocr_no_better"
    """The text layer looked broken, but OCR did not read more."""
    OWN = "own"
    """The user brought it (`own_texts`)."""
    NOTHING_READ = "nothing_read"
    """OCR read no letter and no digit; the text layer, if any, was taken as it is."""


@dataclass(frozen=True, slots=True)
class TextReading:
    """The source of a page's text."""

    source: TextSource
    reason: TextReason
    engine: str | None = None
    """Name and version of the engine that read the picture, if one did, even if its text was not
    used.
    """


class Finding(StrEnum):
    """Defects of a page that readers should know about before they rely on its picture or text."""

    MISSING_GLYPHS = "missing_glyphs"
    """Letters of the text layer have no ink in the picture."""
    REDRAWN = "redrawn"
    """The picture is by the second renderer, since the first one left letters out."""
    WRONG_MAP = "wrong_map"
    """The text layer has other letters than the picture shows."""
    XFA_STUB = "xfa_stub"
    """The page is a placeholder for a form (XFA) that no renderer here draws."""
    TURNED = "turned"
    """The picture in the file was not upright."""
    DOUBTFUL_OCR = "doubtful_ocr"
    """OCR was unsure of much of what it read."""


@dataclass(frozen=True, slots=True)
class Source:
    """The file or folder from which a document was made."""

    name: str
    """Path inside the ingested folder."""
    sha256: str
    """Digest of the file's bytes, or of the SHA-256 digests of page images in page order."""


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A stored page.

    Hashes become parts of paths, so one that is not a SHA-256 raises a `ValueError`.
    """

    width: int
    height: int
    image: str
    """SHA-256 of the JPEG file."""
    text: str | None
    """SHA-256 of the text; None if the page has no text."""
    reading: TextReading | None = None
    """Source of the text; None if the page was made without text (`store.derive`)."""
    described: str | None = None
    """SHA-256 of a model's description of the picture (`describing`); None if there is none."""
    turned: Rotation = Rotation.NONE
    """The turn that made the picture upright (`references.turned_box`)."""
    before_turn: str | None = None
    """SHA-256 of the picture before it was turned, which is not stored; None if it was not."""
    findings: tuple[Finding, ...] = ()
    """Defects that were found during ingestion; each once, in the order of `Finding`."""

    def __post_init__(self) -> None:
        for name in ("image", "text", "described", "before_turn"):
            digest = getattr(self, name)
            if digest is not None and not is_digest(digest):
                raise ValueError(f"{name}: {digest!r} is not a SHA-256")

    def objects(self) -> list[tuple[str, ObjectKind]]:
        """Return the digests and kinds of its picture, and of its text and description, if any."""
        texts = [
            (digest, ObjectKind.TEXT)
            for digest in (self.text, self.described)
            if digest is not None
        ]
        return [(self.image, ObjectKind.IMAGE), *texts]


@dataclass(frozen=True, slots=True)
class Unread:
    """The failure to read a document's layout for its headings."""

    reason: str
    may_pass: bool
    """Time, memory or Java was lacking: the next ingest tries again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A stored document."""

    schema_version: Literal[1] = 1
    doc_id: str
    source: Source
    settings: str
    """The key of the render settings (`RenderSettings.pdf_key` or `image_key`)."""
    software: str
    """The renderer and its version, for information only."""
    outline: tuple[OutlineEntry, ...]
    """The bookmarks, or the headings that were found by the layout."""
    pages: tuple[PageEntry, ...]
    title: str = ""
    """The title in the PDF's metadata, on one line; empty if there is none, and for page images."""
    unread: Unread | None = None
    """The reason why the layout could not be read; None if it was read or was not needed."""

    @property
    def is_bookmarked(self) -> bool:
        """True if the outline consists of the file's own bookmarks, which its author chose."""
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
    """Headings of the whole document found by its layout, only in the range of the first page."""
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
    # imported only when used: the import takes as long as rendering four pages
    from pydantic import ValidationError

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
