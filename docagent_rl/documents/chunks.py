"""The work of ingesting: looking at a source, and storing a range of its pages."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.images import SOFTWARE, read_page_image
from docagent_rl.documents.manifest import ChunkRecord, OutlineEntry, PageRecord
from docagent_rl.documents.objects import ObjectStore
from docagent_rl.documents.pdf import open_pdf, page_text
from docagent_rl.documents.render import encode_jpeg, make_renderer
from docagent_rl.documents.settings import RenderSettings
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.io import atomic_write

# Fixed, so that a run with another number of workers finds the ranges of an interrupted one.
PAGES_PER_CHUNK = 16

Stamp = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class ProbedDocument:
    """A source that can be read."""

    source: SourceDocument
    sha256: str
    num_pages: int
    outline: tuple[OutlineEntry, ...]
    stamp: Stamp
    """(size, modification time in ns) of each file when it was hashed."""


@dataclass(frozen=True, slots=True)
class ChunkTask:
    """A range of pages to store."""

    doc_id: str
    kind: SourceKind
    files: tuple[Path, ...]
    """The PDF, or the page images of this range."""
    stamp: Stamp
    first: int
    last: int
    """Pages `first` to `last`, both included, 1-based."""
    settings: RenderSettings
    objects: ObjectStore
    record: Path
    """Where to write the chunk record once the pages are stored."""

    @property
    def num_pages(self) -> int:
        """Number of pages of the range."""
        return self.last - self.first + 1


def probe(source: SourceDocument) -> ProbedDocument:
    """Hash a source, count its pages and read its outline.

    Raises:
        DocumentError: It cannot be read.
    """
    try:
        stamp = _stamp(source.files)
        if source.kind is SourceKind.IMAGES:
            return ProbedDocument(source, _hash_files(source.files), len(source.files), (), stamp)
        (path,) = source.files
        with open_pdf(path) as pdf:
            return ProbedDocument(source, _hash_file(path), pdf.num_pages, pdf.outline(), stamp)
    except OSError as error:
        raise DocumentError(f"cannot be read ({error.strerror or error})") from error


def store_chunk(task: ChunkTask) -> int:
    """Store the pages of a range, then its record; returns the number of pages.

    Raises:
        DocumentError: A page cannot be read, or the file changed since it was hashed.
    """
    if not _is_unchanged(task):
        raise DocumentError("it changed while it was being ingested: ingest it again")
    pages = _pdf_pages(task) if task.kind is SourceKind.PDF else _image_pages(task)
    record = ChunkRecord(first=task.first, pages=tuple(pages))
    atomic_write(task.record, record.model_dump_json())
    return task.num_pages


def software(kind: SourceKind, settings: RenderSettings) -> str:
    """What renders documents of this kind, with its version."""
    return make_renderer(settings).software if kind is SourceKind.PDF else SOFTWARE


def _pdf_pages(task: ChunkTask) -> Iterator[PageRecord]:
    renderer = make_renderer(task.settings)
    with open_pdf(task.files[0]) as pdf:
        for number in range(task.first, task.last + 1):
            image = renderer.render(pdf, number)
            with pdf.page(number) as page:
                text = page_text(page)
            jpeg = encode_jpeg(image, task.settings.jpeg_quality)
            yield _store_page(task.objects, jpeg, image.size, text)


def _image_pages(task: ChunkTask) -> Iterator[PageRecord]:
    for path in task.files:
        jpeg, size = read_page_image(path, task.settings)
        yield _store_page(task.objects, jpeg, size, "")


def _store_page(objects: ObjectStore, jpeg: bytes, size: tuple[int, int], text: str) -> PageRecord:
    return PageRecord(
        width=size[0],
        height=size[1],
        image=objects.put_image(jpeg),
        text=objects.put_text(text) if text else None,
    )


def _stamp(files: tuple[Path, ...]) -> Stamp:
    return tuple((stat.st_size, stat.st_mtime_ns) for stat in (path.stat() for path in files))


def _is_unchanged(task: ChunkTask) -> bool:
    try:
        return _stamp(task.files) == task.stamp
    except FileNotFoundError:
        return False


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hash_files(files: tuple[Path, ...]) -> str:
    return hashlib.sha256("".join(_hash_file(path) for path in files).encode("ascii")).hexdigest()
