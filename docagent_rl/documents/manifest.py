"""What the store knows of a document: one JSON file a document, one a finished range of pages."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from docagent_rl.documents.objects import SHA256_PATTERN
from docagent_rl.errors import UserError

Sha256 = Annotated[str, Field(pattern=SHA256_PATTERN)]
PageNumber = Annotated[int, Field(ge=1)]


@dataclass(frozen=True, slots=True)
class OutlineEntry:
    """A bookmark of a document."""

    title: str
    level: int
    """Depth in the tree of bookmarks, 1 at the top."""
    page: int | None
    """The page it leads to, 1-based; None when it leads to no page of this document."""


@dataclass(frozen=True, slots=True)
class Source:
    """The file or folder that a document was made from."""

    name: str
    """Path inside the ingested folder."""
    sha256: str
    """Of a PDF: of its bytes. Of page images: of the SHA-256 digests of the files, in page order."""


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PageRecord(_Record):
    """A stored page."""

    width: PageNumber
    height: PageNumber
    image: Sha256
    text: Sha256 | None
    """None: the page has no text layer."""


class Manifest(_Record):
    """A stored document."""

    schema_version: Literal[1] = 1
    doc_id: Annotated[str, Field(min_length=1)]
    source: Source
    settings: str
    """The key of the render settings (`RenderSettings.pdf_key` or `image_key`)."""
    software: str
    """What rendered the pages, with its version: for the record only."""
    outline: tuple[OutlineEntry, ...]
    pages: Annotated[tuple[PageRecord, ...], Field(min_length=1)]


class ChunkRecord(_Record):
    """A finished range of pages of a document that is still being ingested."""

    schema_version: Literal[1] = 1
    first: PageNumber
    pages: Annotated[tuple[PageRecord, ...], Field(min_length=1)]


RecordT = TypeVar("RecordT", Manifest, ChunkRecord)


def read_record(kind: type[RecordT], path: Path) -> RecordT:
    """Read a manifest or a chunk record.

    Raises:
        FileNotFoundError: There is no such file.
        UserError: The file is damaged or of another version.
    """
    try:
        return kind.model_validate_json(path.read_bytes())
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"]) or "file"
        raise UserError(
            f"{path}: damaged, or written by another version ({field}: {problem['msg']}); "
            "delete it and ingest the document again"
        ) from error
