"""The tasks of an ingest: probing a source, and storing a range of its pages."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from PIL import Image

from docagent_rl.documents.contents import FEWEST_ENTRIES
from docagent_rl.documents.contents.typography import typed_headings
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import (
    BY_LAYOUT,
    ChunkEntry,
    PageEntry,
    TextReason,
    Unread,
    dump_record,
)
from docagent_rl.documents.native import native_messages
from docagent_rl.documents.objects import ObjectStore, sync_to_disk, write
from docagent_rl.documents.ocr import engine_name
from docagent_rl.documents.office import print_office
from docagent_rl.documents.page_text import TextLayer, read_page, read_part
from docagent_rl.documents.page_tree import check_page_count
from docagent_rl.documents.pdf import POINTS_PER_INCH, OpenPdf, open_pdf
from docagent_rl.documents.pdf_pages import PdfPages
from docagent_rl.documents.references import OutlineEntry
from docagent_rl.documents.render import (
    FORMATS,
    encode_jpeg,
    has_little_colour,
    is_white,
    read_page_image,
    turned_jpeg,
)
from docagent_rl.documents.settings import (
    DisplayError,
    DocumentError,
    OcrMode,
    RenderSettings,
    RetryableDocumentError,
    Size,
    check_size,
)
from docagent_rl.documents.source_files import Stamp, hash_file, stamp_of, unreadable
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.tiff import page_frames
from docagent_rl.documents.workers import begin_part

# Fixed, so that a run with another number of workers can resume an interrupted one.
PAGES_PER_CHUNK = 16
PRINTED = "printed.pdf"
"""Name of the PDF made from an office file, next to the records of its page ranges."""
_SIZES_DPI = 200


@dataclass(frozen=True, slots=True)
class ProbedDocument:
    """A source that was opened successfully, with what was learnt about it."""

    source: SourceDocument
    sha256: str
    num_pages: int
    outline: tuple[OutlineEntry, ...]
    stamp: Stamp
    """Stamp of the files when they were hashed."""
    sizes: tuple[tuple[float, float], ...] = ()
    """`(width, height)` of the pages, from `probe_sizes`: PDF pages at 200 dpi, page images in
    their own pixels.
    """
    title: str = ""
    """The title in the file's metadata."""
    frames: tuple[int, ...] = ()
    """Indexes of the images in a TIFF that are its pages."""
    printed: Path | None = None
    """The PDF that an office suite made from the file."""

    @property
    def pdf(self) -> Path:
        """The PDF to read: the file itself, or the one made from it."""
        return self.printed or self.source.files[0]

    @property
    def is_pdf(self) -> bool:
        """True if its pages are those of a PDF."""
        return self.source.kind in (SourceKind.PDF, SourceKind.OFFICE)


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """The store and the settings of an ingest."""

    layout: StoreLayout
    render: RenderSettings
    ocr: OcrMode
    by_layout: bool = False
    """Find the headings of PDFs without bookmarks by their layout."""

    def key(self, probed: ProbedDocument) -> str:
        """Return the settings that decide what is stored; if they change, it is stored again."""
        key = self.render.pdf_key() if probed.is_pdf else self.render.image_key()
        if self.ocr is not OcrMode.AUTO:
            key = f"{key} ocr={self.ocr.value}"
        return f"{key}{BY_LAYOUT}" if self.finds_headings(probed) else key

    def folder(self, probed: ProbedDocument) -> Path:
        """Return the folder for the records of a document's page ranges."""
        return self.layout.partial(probed.source.doc_id, probed.sha256, self.key(probed))

    def finds_headings(self, probed: ProbedDocument) -> bool:
        """Return whether to find headings by the layout: only for PDFs without bookmarks."""
        bookmarks = sum(entry.page is not None for entry in probed.outline)
        return (
            self.by_layout and probed.source.kind is SourceKind.PDF and bookmarks < FEWEST_ENTRIES
        )


@dataclass(frozen=True, slots=True)
class PageRangeTask:
    """A range of pages to store."""

    probed: ProbedDocument
    plan: IngestPlan
    folder: Path
    """Folder for the records of the document's page ranges."""
    first: int
    """Number of the first page."""
    known: tuple[PageEntry, ...] = ()
    """Pages of an earlier version, with the same settings, whose pictures OCR has read already
    (`reusable_pages`).
    """

    @property
    def last(self) -> int:
        """Number of the last page."""
        return min(self.first + PAGES_PER_CHUNK - 1, self.probed.num_pages)

    @property
    def num_pages(self) -> int:
        """Number of pages in the range."""
        return self.last - self.first + 1

    @property
    def record(self) -> Path:
        """The file of the chunk record, written as soon as the pages are stored."""
        return self.folder / f"{self.first}.json"

    @property
    def files(self) -> slice:
        """Slice of the document's files that the range needs: its only file, or page images."""
        is_one = self.probed.source.kind is not SourceKind.IMAGES
        return slice(None) if is_one else slice(self.first - 1, self.last)


def read_headings(probed: ProbedDocument) -> tuple[tuple[OutlineEntry, ...], Unread | None]:
    """Return the headings of a PDF found by its layout, or the reason why there are none."""
    begin_part("its headings")
    path = probed.pdf
    with open_pdf(path) as pdf:
        if not pdf.has_text():
            return (), None
    try:
        return typed_headings(path, probed.num_pages), None
    except DocumentError as error:
        return (), Unread(str(error), may_pass=isinstance(error, RetryableDocumentError))


def probe_source(source: SourceDocument) -> ProbedDocument:
    """Hash a source, count its pages and read its outline.

    Raises:
        DocumentError: The source cannot be read.
    """
    try:
        stamp = stamp_of(source.files)
        if source.kind is SourceKind.IMAGES:
            digests = "".join(map(hash_file, source.files)).encode("ascii")
            return ProbedDocument(
                source, hashlib.sha256(digests).hexdigest(), len(source.files), (), stamp
            )
        (path,) = source.files
        found = ProbedDocument(source, hash_file(path), 0, (), stamp)
        if source.kind is SourceKind.TIFF:
            frames = tuple(page_frames(path))
            return replace(found, num_pages=len(frames), frames=frames)
        # an office file has no pages yet: it is converted to a PDF when they are needed
        return found if source.kind is SourceKind.OFFICE else _opened(found)
    except OSError as error:
        raise unreadable(error) from error


def convert_office(plan: IngestPlan, probed: ProbedDocument) -> ProbedDocument:
    """Convert an office file to a PDF next to its range records, unless it exists, and probe it.

    Raises:
        DocumentError: The file cannot be converted, or the PDF cannot be read.
    """
    folder = plan.folder(probed)
    target = folder / PRINTED
    if not target.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        print_office(probed.source.files[0], target)
    return _opened(replace(probed, printed=target))


def _opened(probed: ProbedDocument) -> ProbedDocument:
    """Count the pages of a PDF and read its outline."""
    begin_part("its structure")
    with open_pdf(probed.pdf) as pdf:
        for _ in check_page_count(pdf):
            begin_part("its structure")
        begin_part("its outline")
        return replace(probed, num_pages=pdf.num_pages, outline=pdf.outline(), title=pdf.title())


def probe_sizes(source: SourceDocument) -> ProbedDocument:
    """Probe a source as `probe_source` does, and measure its pages."""
    found = probe_source(source)
    sizes = []
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
            begin_part(f"page {number}")
            with pdf.page(number) as page:
                width, height = page.get_size()
            if not (width > 0 and height > 0):
                raise DocumentError(f"page {number} has no area")
            sizes.append(
                (width * _SIZES_DPI / POINTS_PER_INCH, height * _SIZES_DPI / POINTS_PER_INCH)
            )
    return replace(found, sizes=tuple(sizes))


def store_chunk(task: PageRangeTask) -> int:
    """Store the pages of a range, then its record; return the number of pages.

    Raises:
        DocumentError: A page cannot be read, or the file has changed since it was hashed.
        UserError: The store cannot be written.
    """
    batch: list[Path] = []
    try:
        if stamp_of(task.probed.source.files[task.files]) != task.probed.stamp[task.files]:
            raise DocumentError("it changed while it was being ingested: ingest it again")
        read = _pdf_pages if task.probed.is_pdf else _image_pages
        with native_messages():
            pages = tuple(_stored(task, batch, *page) for page in read(task))
        is_asked = task.first == 1 and task.plan.finds_headings(task.probed)
        headings, unread = read_headings(task.probed) if is_asked else ((), None)
    except OSError as error:  # from reading the source: writing the store raises a UserError
        raise unreadable(error) from error
    begin_part("storing it")
    sync_to_disk(batch)
    record = ChunkEntry(first=task.first, pages=pages, headings=headings, unread=unread)
    write(task.record, dump_record(record))
    return task.num_pages


def is_stored_whole(
    objects: ObjectStore, stored: tuple[ProbedDocument, tuple[PageEntry, ...]]
) -> bool:
    """Return whether every picture and text of a stored document is there and intact."""
    for number, page in enumerate(stored[1], start=1):
        begin_part(f"stored page {number}")
        if not objects.are_whole(page.objects()):
            return False
    return True


def _pdf_pages(task: PageRangeTask) -> Iterator[tuple[str, bytes, Size, TextLayer]]:
    """Yield the pages of a range: name, JPEG file, size and text layer."""
    read = None if task.plan.ocr is OcrMode.NEVER else read_part
    numbers = range(task.first, task.last + 1)
    with open_pdf(task.probed.pdf) as pdf:
        pages = PdfPages(pdf, task.plan.render, numbers, read)
        for number in numbers:
            name = f"page {number}"
            begin_part(name)
            with pdf.page(number):
                picture, layer = pages.read(number)
                jpeg, size = _drawn(pdf, number, picture, task.plan.render)
                yield name, jpeg, size, layer


def _image_pages(task: PageRangeTask) -> Iterator[tuple[str, bytes, Size, TextLayer]]:
    if task.probed.source.kind is SourceKind.TIFF:
        yield from _frames(task)
        return
    for path in task.probed.source.files[task.files]:
        begin_part(path.name)
        jpeg, size = read_page_image(path, task.plan.render)
        _check_shape(path.name, size)
        yield path.name, jpeg, size, TextLayer()


def _frames(task: PageRangeTask) -> Iterator[tuple[str, bytes, Size, TextLayer]]:
    (path,) = task.probed.source.files
    for number in range(task.first, task.last + 1):
        name = f"page {number}"
        begin_part(name)
        jpeg, size = read_page_image(path, task.plan.render, task.probed.frames[number - 1])
        _check_shape(name, size)
        yield name, jpeg, size, TextLayer()


def reusable_pages(pages: Iterable[PageEntry]) -> tuple[PageEntry, ...]:
    """Return the pages whose text depends only on the picture and is by the current OCR engine."""
    engine = engine_name()
    return tuple(
        replace(page, described=None)
        for page in pages
        if page.reading is not None
        and page.reading.engine == engine
        and (page.reading.reason is TextReason.EMPTY or page.text is None)
    )


def _stored(
    task: PageRangeTask, batch: list[Path], name: str, jpeg: bytes, size: Size, layer: TextLayer
) -> PageEntry:
    put = partial(task.plan.layout.objects.put, batch=batch)
    if not layer.text and (known := _known(task, jpeg)):
        return known
    read = read_page(name, jpeg, layer, task.plan.ocr)
    before_turn = None
    if read.turn:
        before_turn = hashlib.sha256(jpeg).hexdigest()
        jpeg, size = turned_jpeg(jpeg, read.turn, task.plan.render.jpeg_quality)
    return PageEntry(
        *size,
        put(jpeg),
        put(read.text) if read.text else None,
        read.reading,
        turned=read.turn,
        before_turn=before_turn,
        findings=(*layer.findings, *read.findings),
    )


def _known(task: PageRangeTask, jpeg: bytes) -> PageEntry | None:
    """Return the page with this picture that OCR has read before, if the store has it intact."""
    digest = hashlib.sha256(jpeg).hexdigest() if task.known else ""
    for page in task.known:
        if (page.before_turn or page.image) == digest:
            return page if task.plan.layout.objects.are_whole(page.objects()) else None
    return None


def _drawn(
    pdf: OpenPdf, number: int, image: Image.Image, settings: RenderSettings
) -> tuple[bytes, Size]:
    """Return a rendered page as a JPEG file, and its size.

    Raises:
        DocumentError: The page is white because the file is damaged, or it cannot be shown.
    """
    if is_white(image):
        from docagent_rl.documents.white_pages import damage  # rarely needed and slow to import

        if reason := damage(pdf, number):
            raise DocumentError(f"page {number} comes out white: {reason}")
    _check_shape(f"page {number}", image.size)
    return encode_jpeg(
        image, settings.jpeg_quality, half_colour=has_little_colour(image)
    ), image.size


def _check_shape(name: str, size: Size) -> None:
    # a page that no image processor accepts would otherwise fail in the middle of a trajectory
    try:
        check_size(size)
    except DisplayError as error:
        raise DocumentError(f"{name} cannot be shown: {error}") from error
