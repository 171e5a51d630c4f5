"""What the store knows of a document: one JSON file a document, one a finished range of pages."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, TypeVar

from docagent_rl.base.errors import UserError
from docagent_rl.base.sealed import is_sealed, seal
from docagent_rl.base.terminal import id_problem
from docagent_rl.documents.objects import is_digest, read_bytes
from docagent_rl.documents.reading import TextReading

if TYPE_CHECKING:
    from pydantic import ConfigDict, TypeAdapter


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


@dataclass(frozen=True, slots=True)
class PageEntry:
    """A stored page.

    Raises:
        ValueError: A side is below 1, or a hash is no SHA-256.
    """

    width: int
    height: int
    image: str
    """SHA-256 of the JPEG file."""
    text: str | None
    """SHA-256 of the text; None: the page has none."""
    typography: str | None = None
    """Of its lines with their print, as `typography.dump_lines` writes them; None: the page has no text, or
    was stored by a version that did not look."""
    words: str | None = None
    """Of the words that OCR read, as `ocr.words.dump_words` writes them; None: the text is not by OCR."""
    reading: TextReading | None = None
    """Where the text comes from; None: the page was stored by a version that did not tell."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if min(self.width, self.height) < 1:
            raise ValueError(f"a page of {self.width} x {self.height} pixels")
        for name in ("image", "text", "typography", "words"):
            digest = getattr(self, name)
            if digest is not None and not is_digest(digest):
                raise ValueError(f"{name}: {digest!r} is no SHA-256")


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A stored document."""

    schema_version: Literal[1] = 1
    doc_id: str
    source: Source
    settings: str
    """The key of the render settings (`RenderSettings.pdf_key` or `image_key`)."""
    software: str
    """What rendered the pages, with its version: for the record only."""
    outline: tuple[OutlineEntry, ...]
    pages: tuple[PageEntry, ...]
    checksum: str | None = field(default=None, repr=False)
    """Of the file (`docagent_rl.base.sealed`); None in files of earlier versions."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if not self.doc_id:
            raise ValueError("doc_id is empty")
        if problem := id_problem(self.doc_id):
            raise ValueError(f"doc_id {problem}")
        _check_pages(self.pages)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkEntry:
    """A finished range of pages of a document that is still being ingested."""

    schema_version: Literal[1] = 1
    first: int
    """Number of the first page."""
    pages: tuple[PageEntry, ...]
    checksum: str | None = field(default=None, repr=False)
    """As of `Manifest`."""

    __pydantic_config__: ClassVar[ConfigDict] = {"extra": "forbid"}

    def __post_init__(self) -> None:
        if self.first < 1:
            raise ValueError(f"first is {self.first}: pages count from 1")
        _check_pages(self.pages)


RecordT = TypeVar("RecordT", Manifest, ChunkEntry)


def dump_record(record: Manifest | ChunkEntry) -> str:
    """What `read_record` reads, with a checksum."""
    content = asdict(record)
    del content["checksum"]
    # a manifest is there to be looked at, too; a range of pages is gone when its document is whole
    indent = 1 if isinstance(record, Manifest) else None
    return seal(json.dumps(content, indent=indent, ensure_ascii=False))


def read_record(kind: type[RecordT], path: Path) -> RecordT:
    """Read a manifest or a chunk record and verify its checksum.

    Raises:
        FileNotFoundError: There is no such file.
        UserError: The file is damaged or of another version, or may not be read.
        InfrastructureError: The file system fails.
    """
    from pydantic import ValidationError  # takes as long to import as four pages to render: when used

    data = read_bytes(path)
    try:
        is_sealed(data)
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


def _check_pages(pages: tuple[PageEntry, ...]) -> None:
    if not pages:
        raise ValueError("it has no pages")


def _damaged(path: Path, problem: str) -> UserError:
    return UserError(
        f"{path}: damaged, or written by another version ({problem}); delete it and ingest the document again"
    )
