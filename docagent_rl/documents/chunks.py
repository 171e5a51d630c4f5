"""The work of ingesting: looking at a source, and storing a range of its pages."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.blank import damage
from docagent_rl.documents.colour import Lattice
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.heartbeat import beat
from docagent_rl.documents.images import SOFTWARE, read_page_image
from docagent_rl.documents.kept_pdf import kept_pdf
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.manifest import ChunkEntry, OutlineEntry, PageEntry, dump_record
from docagent_rl.documents.objects import Kind, ObjectBatch, ObjectStore
from docagent_rl.documents.ocr import OcrSettings
from docagent_rl.documents.ocr.cache import OcrCache
from docagent_rl.documents.ocr.engine import DPI as OCR_DPI
from docagent_rl.documents.ocr.words import dump_words
from docagent_rl.documents.page_text import Layer, PageReader, PageText, Picture
from docagent_rl.documents.pdf import OpenPdf, open_pdf, raster_scale
from docagent_rl.documents.render import encode_jpeg, make_renderer
from docagent_rl.documents.settings import RendererKind, RenderSettings
from docagent_rl.documents.sizes import DisplayError, check_size
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.text_layer import may_hide_text, unmapped_share
from docagent_rl.documents.typography import dump_lines, text_and_lines
from docagent_rl.documents.writing import write

# Fixed, so that a run with another number of workers finds the ranges of an interrupted one.
PAGES_PER_CHUNK = 16
_BLOCK = 1 << 23
_GOOD_ENOUGH = 0.9
"""Share of the resolution that OCR asks for which a stored picture has to have."""

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
    limits: IngestLimits
    ocr: OcrSettings
    objects: ObjectStore
    cache: OcrCache
    record: Path
    """Where to write the chunk record once the pages are stored."""
    held: tuple[PageEntry, ...] = ()
    """The pages of the range that the store has already, pictures and all; empty: it has none of them."""
    anew: frozenset[int] = frozenset()
    """Numbers of those among `held` whose text is to be read anew."""

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
        digest = _hash_file(path)
        beat("its structure")
        with open_pdf(path) as pdf:
            beat("its outline")
            return ProbedDocument(source, digest, pdf.num_pages, pdf.outline(), stamp)
    except OSError as error:
        raise _unreadable(error) from error


def store_chunk(task: ChunkTask) -> int:
    """Store the pages of a range, then its record; returns the number of pages.

    Raises:
        DocumentError: A page cannot be read, or the file changed since it was hashed.
        UserError: The store cannot be written.
    """
    batch = task.objects.batch()
    try:
        if not _is_unchanged(task):
            raise DocumentError("it changed while it was being ingested: ingest it again")
        if task.held:
            pages = tuple(_held_pages(task, batch))
        else:
            pages = tuple((_pdf_pages if task.kind is SourceKind.PDF else _image_pages)(task, batch))
    except OSError as error:  # of the source: what the store does raises a UserError
        raise _unreadable(error) from error
    beat("storing it")
    batch.force()
    write(task.record, dump_record(ChunkEntry(first=task.first, pages=pages)))
    return task.num_pages


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A source that the store says it holds."""

    probed: ProbedDocument
    pages: tuple[PageEntry, ...]
    objects: ObjectStore


def is_whole(stored: StoredDocument) -> bool:
    """Whether every picture and text of a stored document is there as it was written."""
    for number, page in enumerate(stored.pages, start=1):
        beat(f"stored page {number}")
        if not page_is_whole(page, stored.objects):
            return False
    return True


def page_is_whole(page: PageEntry, objects: ObjectStore) -> bool:
    """Whether the picture and the texts of a page are there as they were written."""
    try:
        objects.verify(page.image, Kind.IMAGE)
        for digest in filter(None, (page.text, page.typography, page.words)):
            objects.verify(digest, Kind.TEXT)
    except UserError:
        return False
    return True


def software(kind: SourceKind, settings: RenderSettings) -> str:
    """What renders documents of this kind, with its version."""
    return make_renderer(settings).software if kind is SourceKind.PDF else SOFTWARE


def _pdf_pages(task: ChunkTask, batch: ObjectBatch) -> Iterator[PageEntry]:
    renderer = make_renderer(task.settings, task.limits.pixels)
    reader = PageReader(task.ocr, task.cache)
    with kept_pdf(task.files[0], task.stamp) as pdf:
        for number in range(task.first, task.last + 1):
            name = f"page {number}"
            beat(name)
            with pdf.page(number):
                image = renderer.render(pdf, number)
                size, lattice = image.size, Lattice(image)
                if lattice.is_white() and (reason := damage(pdf, number)):
                    raise DocumentError(f"page {number} comes out white: {reason}")
                _check_size(name, size)
                jpeg = encode_jpeg(image, task.settings.jpeg_quality, lattice.chroma())
                text = reader.read(name, _picture(task, pdf, number, jpeg, size), _layer(pdf, number))
            yield _store_text(batch, PageEntry(*size, batch.put_image(jpeg), None), text)


def _image_pages(task: ChunkTask, batch: ObjectBatch) -> Iterator[PageEntry]:
    reader = PageReader(task.ocr, task.cache)
    for path in task.files:
        beat(path.name)
        jpeg, size = read_page_image(path, task.settings, task.limits.pixels)
        _check_size(path.name, size)
        text = reader.read(path.name, Picture(jpeg), Layer())
        yield _store_text(batch, PageEntry(*size, batch.put_image(jpeg), None), text)


def _held_pages(task: ChunkTask, batch: ObjectBatch) -> Iterator[PageEntry]:
    """Stored pages, with the text of some read anew: nothing is rendered that is there."""
    reader = PageReader(task.ocr, task.cache)
    with ExitStack() as stack:
        of_pdf = task.kind is SourceKind.PDF
        pdf = stack.enter_context(kept_pdf(task.files[0], task.stamp)) if of_pdf else None
        for number, page in enumerate(task.held, start=task.first):
            if number not in task.anew:
                yield page
                continue
            name = f"page {number}"
            beat(name)
            jpeg = task.objects.image(page.image)
            if pdf is None:
                text = reader.read(name, Picture(jpeg), Layer())
            else:
                with pdf.page(number):
                    picture = _picture(task, pdf, number, jpeg, (page.width, page.height))
                    text = reader.read(name, picture, _layer(pdf, number))
            yield _store_text(batch, page, text)


def _layer(pdf: OpenPdf, number: int) -> Layer:
    with pdf.page(number) as page:
        textpage = page.get_textpage()
        try:
            text, lines = text_and_lines(textpage, page)
            unmapped = unmapped_share(textpage)
        finally:
            textpage.close()

    def hidden() -> bool:
        with pdf.page(number) as page:
            return may_hide_text(page)

    return Layer(text, lines, unmapped, hidden)


def _picture(task: ChunkTask, pdf: OpenPdf, number: int, jpeg: bytes, size: tuple[int, int]) -> Picture:
    def larger(most_side: int) -> Image.Image | None:
        with pdf.page(number) as page:
            wanted = raster_scale(page, OCR_DPI, most_side) * max(page.get_size())
        if max(size) >= _GOOD_ENOUGH * wanted:
            return None
        settings = RenderSettings(RendererKind.PDFIUM, dpi=OCR_DPI, max_side=most_side)
        return make_renderer(settings, task.limits.pixels).render(pdf, number)

    return Picture(jpeg, larger)


def _check_size(name: str, size: tuple[int, int]) -> None:
    try:
        check_size(size)  # no model could be shown it: that would come out in the middle of a session
    except DisplayError as error:
        raise DocumentError(f"{name} cannot be shown: {error}") from error


def _store_text(batch: ObjectBatch, page: PageEntry, text: PageText) -> PageEntry:
    return replace(
        page,
        text=batch.put_text(text.text) if text.text else None,
        typography=batch.put_text(dump_lines(text.lines)) if text.lines else None,
        words=batch.put_text(dump_words(text.words)) if text.words else None,
        reading=text.reading,
    )


def _stamp(files: tuple[Path, ...]) -> Stamp:
    found = [path.stat() for path in files]
    for path, status in zip(files, found, strict=True):
        if not stat.S_ISREG(status.st_mode):  # opening a pipe waits for ever
            raise DocumentError(f"{path.name} is not a regular file")
    return tuple((status.st_size, status.st_mtime_ns) for status in found)


def _unreadable(error: OSError) -> DocumentError:
    name = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
    return DocumentError(f"cannot be read ({name}{error.strerror or error})")


def _is_unchanged(task: ChunkTask) -> bool:
    try:
        return _stamp(task.files) == task.stamp
    except FileNotFoundError:
        return False


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(partial(file.read, _BLOCK), b""):
            beat(path.name)
            digest.update(block)
    return digest.hexdigest()


def _hash_files(files: tuple[Path, ...]) -> str:
    return hashlib.sha256("".join(_hash_file(path) for path in files).encode("ascii")).hexdigest()
