"""The work of ingesting: looking at a source, and storing a range of its pages."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Iterator
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PIL import Image
from pypdfium2 import PdfPage

from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import ChunkEntry, OutlineEntry, PageEntry, dump_record
from docagent_rl.documents.objects import ObjectStore, force, write
from docagent_rl.documents.ocr import DPI as OCR_DPI
from docagent_rl.documents.ocr import dump_words
from docagent_rl.documents.page_text import Layer, Picture, read_page
from docagent_rl.documents.pdf import POINTS_PER_INCH, OpenPdf, kept_pdf, open_pdf, raster_scale
from docagent_rl.documents.render import (
    FORMATS,
    PdfiumRenderer,
    encode_jpeg,
    has_little_colour,
    is_white,
    make_renderer,
    read_page_image,
)
from docagent_rl.documents.settings import (
    DisplayError,
    DocumentError,
    IngestLimits,
    OcrSettings,
    RendererKind,
    RenderSettings,
    Size,
    check_size,
)
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.text_layer import may_hide_text, unmapped_share
from docagent_rl.documents.typography import dump_lines, text_and_lines
from docagent_rl.documents.workers import beat

# Fixed, so that a run with another number of workers finds the ranges of an interrupted one.
PAGES_PER_CHUNK = 16
_BLOCK = 1 << 23
_GOOD_ENOUGH = 0.9
"""Least resolution of a stored picture that OCR reads, as a share of the one that it asks for."""
_SIZES_DPI = 200

Stamp = tuple[tuple[int, int], ...]
"""(size, modification time in ns) of each file."""


@dataclass(frozen=True, slots=True)
class ProbedDocument:
    """A source that can be read."""

    source: SourceDocument
    sha256: str
    num_pages: int
    outline: tuple[OutlineEntry, ...]
    stamp: Stamp
    """Of the files when they were hashed."""
    sizes: tuple[tuple[float, float], ...] = ()
    """`(width, height)` of the pages in pixels at 200 dpi, from `probe_sizes`; page images count as such."""
    title: str = ""
    """As the file states it."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The store of an ingest and its settings."""

    layout: StoreLayout
    render: RenderSettings
    limits: IngestLimits
    ocr: OcrSettings


@dataclass(frozen=True, slots=True)
class ChunkTask:
    """A range of pages to store."""

    probed: ProbedDocument
    plan: Plan
    folder: Path
    """Of the records of the document's ranges."""
    first: int
    """Number of the first page."""
    stored: tuple[PageEntry, ...] = ()
    """The pages of the document that the store has already, pictures and all; empty: it has none of them."""
    reread: frozenset[int] = frozenset()
    """Numbers of the pages among `stored` whose text is to be read anew."""

    @property
    def doc_id(self) -> str:
        """The document of the range."""
        return self.probed.source.doc_id

    @property
    def last(self) -> int:
        """Number of the last page."""
        return min(self.first + PAGES_PER_CHUNK - 1, self.probed.num_pages)

    @property
    def num_pages(self) -> int:
        """Number of pages of the range."""
        return self.last - self.first + 1

    @property
    def record(self) -> Path:
        """The file of the chunk record, written once the pages are stored."""
        return self.folder / f"{self.first}.json"

    @property
    def files(self) -> slice:
        """The part of the document's files that the range needs: the PDF, or its page images."""
        is_pdf = self.probed.source.kind is SourceKind.PDF
        return slice(None) if is_pdf else slice(self.first - 1, self.last)


def probe(source: SourceDocument) -> ProbedDocument:
    """Hash a source, count its pages and read its outline; else raise a `DocumentError`."""
    try:
        stamp = _stamp(source.files)
        if source.kind is SourceKind.IMAGES:
            digests = "".join(map(_hash_file, source.files)).encode("ascii")
            return ProbedDocument(source, hashlib.sha256(digests).hexdigest(), len(source.files), (), stamp)
        (path,) = source.files
        digest = _hash_file(path)
        beat("its structure")
        with open_pdf(path) as pdf:
            beat("its outline")
            found = ProbedDocument(source, digest, pdf.num_pages, pdf.outline(), stamp)
            return replace(found, title=pdf.title())
    except OSError as error:
        raise _unreadable(error) from error


def probe_sizes(source: SourceDocument) -> ProbedDocument:
    """Look at a source as `probe` does, and measure its pages."""
    found, sizes = probe(source), []
    if source.kind is SourceKind.IMAGES:
        for path in source.files:
            try:
                with Image.open(path, formats=FORMATS) as image:
                    sizes.append(image.size)
            except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
                raise DocumentError(f"{path.name} is not a readable image ({error})") from error
        return replace(found, sizes=tuple(sizes))
    with open_pdf(source.files[0]) as pdf:
        for number in range(1, pdf.num_pages + 1):
            beat(f"page {number}")
            with pdf.page(number) as page:
                width, height = page.get_size()
            if not (width > 0 and height > 0):
                raise DocumentError(f"page {number} has no area")
            sizes.append((width * _SIZES_DPI / POINTS_PER_INCH, height * _SIZES_DPI / POINTS_PER_INCH))
    return replace(found, sizes=tuple(sizes))


def store_chunk(task: ChunkTask) -> int:
    """Store the pages of a range, then its record; returns the number of pages.

    Raises:
        DocumentError: A page cannot be read, or the file changed since it was hashed.
        UserError: The store cannot be written.
    """
    batch: list[Path] = []
    try:
        try:
            unchanged = _stamp(task.probed.source.files[task.files]) == task.probed.stamp[task.files]
        except FileNotFoundError:
            unchanged = False
        if not unchanged:
            raise DocumentError("it changed while it was being ingested: ingest it again")
        pages = tuple(_pages(task, batch))
    except OSError as error:  # of the source: what the store does raises a UserError
        raise _unreadable(error) from error
    beat("storing it")
    force(batch)
    write(task.record, dump_record(ChunkEntry(first=task.first, pages=pages)))
    return task.num_pages


def is_whole(objects: ObjectStore, stored: tuple[ProbedDocument, tuple[PageEntry, ...]]) -> bool:
    """Return whether every picture and text of a stored document is there as it was written."""
    for number, page in enumerate(stored[1], start=1):
        beat(f"stored page {number}")
        if not objects.are_whole(page.objects().values()):
            return False
    return True


def _pages(task: ChunkTask, batch: list[Path]) -> Iterator[PageEntry]:
    source, stamp, plan = task.probed.source, task.probed.stamp, task.plan
    is_pdf = source.kind is SourceKind.PDF
    # one for all pages: it draws them into the same memory
    renderer = make_renderer(plan.render, plan.limits.pixels) if is_pdf else None
    with kept_pdf.open(source.files[0], stamp) if is_pdf else nullcontext() as pdf:
        for number in range(task.first, task.last + 1):
            stored = task.stored[number - 1] if task.stored else None
            if stored and number not in task.reread:
                yield stored
            else:
                yield _page(task, batch, pdf, renderer, number, stored)


def _page(
    task: ChunkTask,
    batch: list[Path],
    pdf: OpenPdf | None,
    renderer: PdfiumRenderer | None,
    number: int,
    stored: PageEntry | None,
) -> PageEntry:
    """Store a page of a PDF, or of page images; of one that is `stored` only its text is read."""
    plan, files = task.plan, task.probed.source.files
    objects = plan.layout.objects
    put = partial(objects.put, batch=batch)
    name = f"page {number}" if pdf or stored else files[number - 1].name
    beat(name)
    with pdf.page(number) if pdf else nullcontext() as page:
        if stored:
            jpeg, size = objects.image(stored.image), (stored.width, stored.height)
        elif pdf and renderer:
            jpeg, size = _drawn(pdf, number, renderer.render(pdf, number), plan.render)
        else:
            jpeg, size = read_page_image(files[number - 1], plan.render, plan.limits.pixels)
            _check_shape(name, size)
        picture = Picture(jpeg, partial(_larger, plan, pdf, number, size)) if pdf else Picture(jpeg)
        layer = _layer(page) if page else Layer()
        text = read_page(name, picture, layer, plan.ocr, plan.layout.ocr)
    return PageEntry(
        *size,
        stored.image if stored else put(jpeg),
        text=put(text.text) if text.text else None,
        typography=put(dump_lines(text.lines)) if text.lines else None,
        words=put(dump_words(text.words)) if text.words else None,
        reading=text.reading,
    )


def _drawn(pdf: OpenPdf, number: int, image: Image.Image, settings: RenderSettings) -> tuple[bytes, Size]:
    """Return a rendered page as a JPEG file and its size; one that is white by damage is refused."""
    if is_white(image):
        from docagent_rl.documents.white_pages import damage  # white pages are few: when one is met

        if reason := damage(pdf, number):
            raise DocumentError(f"page {number} comes out white: {reason}")
    _check_shape(f"page {number}", image.size)
    return encode_jpeg(image, settings.jpeg_quality, half_colour=has_little_colour(image)), image.size


def _layer(page: PdfPage) -> Layer:
    with closing(page.get_textpage()) as textpage:
        text, lines = text_and_lines(textpage, page)
        return Layer(text, lines, unmapped_share(textpage), lambda: may_hide_text(page))


def _larger(plan: Plan, pdf: OpenPdf, number: int, size: Size, most_side: int) -> Image.Image | None:
    """Return a page as large as OCR asks for; None: the stored picture, of this size, is as good."""
    with pdf.page(number) as page:
        needed = raster_scale(page, OCR_DPI, most_side) * max(page.get_size())
    if max(size) >= _GOOD_ENOUGH * needed:
        return None
    settings = RenderSettings(RendererKind.PDFIUM, dpi=OCR_DPI, max_side=most_side)
    return make_renderer(settings, plan.limits.pixels).render(pdf, number)


def _check_shape(name: str, size: Size) -> None:
    try:
        check_size(size)  # no model could be shown it: that would come out in the middle of a trajectory
    except DisplayError as error:
        raise DocumentError(f"{name} cannot be shown: {error}") from error


def _stamp(files: tuple[Path, ...]) -> Stamp:
    found = [path.stat() for path in files]
    for path, status in zip(files, found, strict=True):
        if not stat.S_ISREG(status.st_mode):  # opening a pipe waits for ever
            raise DocumentError(f"{path.name} is not a regular file")
    return tuple((status.st_size, status.st_mtime_ns) for status in found)


def _unreadable(error: OSError) -> DocumentError:
    name = f"{Path(error.filename).name}: " if isinstance(error.filename, str) else ""
    return DocumentError(f"cannot be read ({name}{error.strerror or error})")


def _hash_file(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for block in iter(partial(file.read, _BLOCK), b""):
            beat(path.name)
            digest.update(block)
    return digest.hexdigest()
