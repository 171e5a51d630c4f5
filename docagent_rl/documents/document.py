"""Documents and pages, read from a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.manifest import Manifest, OutlineEntry, PageEntry, Source
from docagent_rl.documents.objects import Kind
from docagent_rl.documents.ocr.words import OcrLine, load_words
from docagent_rl.documents.reading import TextReading
from docagent_rl.documents.refs import PageRef
from docagent_rl.documents.typography import Line, load_lines

if TYPE_CHECKING:
    from docagent_rl.documents.store import DocumentStore


class Document:
    """A document: its pages, its outline and where it came from. Nothing is decoded until asked for."""

    def __init__(self, store: DocumentStore, manifest: Manifest) -> None:
        self._store = store
        self._manifest = manifest

    def __reduce__(self) -> tuple:
        return _reopen_document, (self._store, self.doc_id)

    def __repr__(self) -> str:
        return f"Document({self.doc_id!r}, {self.num_pages} pages)"

    @property
    def doc_id(self) -> str:
        """The name of the document in its store."""
        return self._manifest.doc_id

    @property
    def num_pages(self) -> int:
        """Number of pages, at least 1."""
        return len(self._manifest.pages)

    @property
    def outline(self) -> list[OutlineEntry]:
        """The PDF's bookmarks in reading order; empty when it has none and for page images."""
        return list(self._manifest.outline)

    @property
    def source(self) -> Source:
        """The file or folder it was made from."""
        return self._manifest.source

    def page(self, number: int) -> Page:
        """Page `number`, 1-based.

        Raises:
            UserError: There is no such page.
        """
        if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= self.num_pages:
            raise UserError(
                f"document {self.doc_id!r} has no page {number!r}: its pages are 1 to {self.num_pages}"
            )
        return Page(self._store, PageRef(self.doc_id, number), self._manifest.pages[number - 1])


class Page:
    """A page of a document."""

    def __init__(self, store: DocumentStore, ref: PageRef, record: PageEntry) -> None:
        self._store = store
        self._record = record
        self.ref = ref

    def __reduce__(self) -> tuple:
        return _reopen_page, (self._store, self.ref)

    def __repr__(self) -> str:
        return f"Page({self.ref}, {self.size[0]}x{self.size[1]})"

    @property
    def size(self) -> tuple[int, int]:
        """(width, height) of the raw raster in pixels, known without decoding it."""
        return self._record.width, self._record.height

    @property
    def image_hash(self) -> str:
        """SHA-256 of the stored JPEG file: the identity of the page's picture, in every process and run."""
        return self._record.image

    @property
    def text_hash(self) -> str | None:
        """SHA-256 of the text in UTF-8; None when the page has none."""
        return self._record.text

    @property
    def reading(self) -> TextReading | None:
        """Where the text comes from, and why; None for pages of earlier versions, which did not tell."""
        return self._record.reading

    def image(self) -> Image.Image:
        """The raw raster, mode RGB; the caller owns it.

        Raises:
            UserError: The stored file is missing or damaged, or of another size than the manifest says.
        """
        raster = self._store.decode(self.image_hash)
        if raster.size != self.size:
            raise UserError(
                f"page {self.ref} of {self._store.path} is damaged: its manifest says {self.size[0]} x "
                f"{self.size[1]} pixels, its picture has {raster.size[0]} x {raster.size[1]}; delete "
                f"{self._store.manifest_path(self.ref.doc_id)} and ingest the document again"
            )
        return raster

    def image_bytes(self) -> bytes:
        """The stored JPEG file.

        Raises:
            UserError: The stored file is missing or damaged.
        """
        return self._store.objects.image(self.image_hash)

    def text(self) -> str:
        """The text, of the text layer or by OCR (`reading`); empty when the page has none.

        Raises:
            UserError: The stored file is missing or damaged.
        """
        return self._store.objects.text(self.text_hash) if self.text_hash else ""

    def lines(self) -> tuple[Line, ...]:
        """The lines of the text with their print and places; empty when the page has none, or was stored
        without.

        Raises:
            UserError: The stored file is missing or damaged.
        """
        if not self._record.typography:
            return ()
        try:
            return load_lines(self._store.objects.text(self._record.typography))
        except ValueError as error:
            path = self._store.objects.path(self._record.typography, Kind.TEXT)
            raise UserError(f"{path} is no list of lines ({error}): ingest the document again") from error

    def words(self) -> tuple[OcrLine, ...]:
        """The words that OCR read, by line, with their places; empty when the text is not by OCR.

        Raises:
            UserError: The stored file is missing or damaged.
        """
        if not self._record.words:
            return ()
        try:
            return load_words(self._store.objects.text(self._record.words))
        except ValueError as error:
            path = self._store.objects.path(self._record.words, Kind.TEXT)
            raise UserError(f"{path} is no list of words ({error}): ingest the document again") from error


def _reopen_document(store: DocumentStore, doc_id: str) -> Document:
    return store.document(doc_id)


def _reopen_page(store: DocumentStore, ref: PageRef) -> Page:
    return store.page(ref)
