"""Reading from document stores: documents, pages, pictures and texts; and derived stores."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from enum import StrEnum
from functools import cache, partial
from pathlib import Path

import cachetools
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import Finding, Manifest, PageEntry, Source, TextReading
from docagent_rl.documents.objects import ObjectKind, ObjectStore
from docagent_rl.documents.references import OutlineEntry, PageRef, Rotation, unknown_document
from docagent_rl.documents.render import encode_jpeg
from docagent_rl.documents.shown import ShownRasters

_CACHED_MANIFESTS = 256
_WHITE_QUALITY = 90
_CONTEXTS = 3
"""Version of the rules for titles and headings; if it changes, text indexes are built again."""


class PageContent(StrEnum):
    """The content of pages from which an index is built."""

    IMAGE = "image"
    TEXT = "text"


class DocumentStore:
    """The documents that `docagent_rl.documents.ingestion.ingest` wrote to a folder.

    Reading is lazy and cached, and many threads and processes may do it; a pickled store consists
    of its path, and is opened again. Manifests are cached after the first read: only stores that
    are opened later see a document that is ingested again.

    Raises (all methods):
        UserError: The folder is not a store, or the document or page does not exist or is damaged.

    Args:
        path: The folder of the store.
        image_cache: Number of decoded rasters to cache (about 6 MB each for A4 at 144 dpi).
        manifests: Number of manifests to cache; with `math.inf`, documents that were read once stay
            readable after they are removed or replaced, until `upkeep.prune` frees their objects.
        shown: Cache of pages at the sizes at which they are shown; None: they are not cached.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        image_cache: int = 16,
        manifests: float = _CACHED_MANIFESTS,
        shown: ShownRasters | None = None,
    ) -> None:
        self.path = Path(path).absolute()
        self._layout = StoreLayout(self.path).require()
        self.objects: ObjectStore = self._layout.objects
        """The content-addressed rasters and texts."""
        self._image_cache = image_cache
        self.shown = shown
        self._images: cachetools.LRUCache[str, Image.Image] = cachetools.LRUCache(image_cache)
        self._manifests: cachetools.LRUCache[str, Manifest] = cachetools.LRUCache(manifests)
        # a manifest's file name is the hash of its id, so this cache never becomes stale
        self._ids_by_file: dict[str, str] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple:
        return partial(DocumentStore, image_cache=self._image_cache, shown=self.shown), (self.path,)

    def __repr__(self) -> str:
        return f"DocumentStore({str(self.path)!r})"

    def doc_ids(self) -> list[str]:
        """Return the ids of all documents, sorted."""
        ids = []
        for path in self._layout.manifests():
            if path.name not in self._ids_by_file:
                try:
                    self._ids_by_file[path.name] = self._layout.read_manifest(path).doc_id
                except FileNotFoundError:  # removed since it was listed
                    continue
            ids.append(self._ids_by_file[path.name])
        return sorted(ids)

    def __contains__(self, doc_id: object) -> bool:
        return isinstance(doc_id, str) and self._layout.manifest(doc_id).is_file()

    def __len__(self) -> int:
        return sum(1 for _ in self._layout.manifests())

    def manifest(self, doc_id: str) -> Manifest:
        """Return the manifest of a document."""
        with self._lock:
            manifest = self._manifests.get(doc_id)
        if manifest is None:
            try:
                manifest = self._layout.read_manifest(self._layout.manifest(doc_id))
            except FileNotFoundError as error:
                if self._layout.has_held(doc_id):
                    raise UserError(
                        f"the document {doc_id!r} is lost from the store {self.path}: ingest it "
                        "again"
                    ) from error
                raise unknown_document(
                    doc_id, self.doc_ids(), f"the document store {self.path}"
                ) from error
            with self._lock:
                self._manifests[doc_id] = manifest
        return manifest

    def document(self, doc_id: str) -> Document:
        """Return a document."""
        return Document(self, self.manifest(doc_id))

    def page(self, ref: PageRef) -> Page:
        """Return a page."""
        return self.document(ref.doc_id).page(ref.page)

    def pages(self) -> Iterator[PageRef]:
        """Yield all pages of all documents, in the order of `PageRef`."""
        for doc_id in self.doc_ids():
            for number in range(1, self.document(doc_id).num_pages + 1):
                yield PageRef(doc_id, number)

    def fingerprint(self, content: PageContent) -> str:
        """Return a SHA-256 over the ids and `digests` of all documents.

        An index stores it to notice later changes of the store. Changed rasters do not change the
        fingerprint of the texts.
        """
        digest = hashlib.sha256()
        for doc_id in self.doc_ids():
            hashes = self.document(doc_id).digests(content)
            # lengths come first, so that no two corpora yield the same bytes
            name = doc_id.encode("utf-8")
            digest.update(f"{len(name)} {len(hashes)} ".encode() + name + " ".join(hashes).encode())
        return digest.hexdigest()

    def decode(self, image_hash: str) -> Image.Image:
        """Return a stored raster as an RGB image.

        Callers may draw on it: Pillow's methods copy it first. Pixels cannot be set one by one
        through `load`.
        """
        with self._lock:
            image = self._images.get(image_hash)
        if image is None:
            try:
                with Image.open(
                    io.BytesIO(self.objects.image(image_hash)), formats=("JPEG",)
                ) as file:
                    image = file.convert("RGB")
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
                path = self.objects.path(image_hash, ObjectKind.IMAGE)
                raise UserError(
                    f"{path} is not a picture ({error}): ingest the document again"
                ) from error
            with self._lock:
                if self._image_cache:
                    self._images[image_hash] = image
        return _shared(image)


def _shared(image: Image.Image) -> Image.Image:
    """Return an image with the same pixels, which Pillow copies before it changes them."""
    shared = image._new(image.im)
    shared.readonly = 1
    return shared


class Document:
    """A document: its pages, its outline and its source. Nothing is decoded until it is needed."""

    def __init__(self, store: DocumentStore, manifest: Manifest) -> None:
        self._store = store
        self._manifest = manifest
        self.doc_id: str = manifest.doc_id
        """The name of the document in its store."""
        self.title: str = manifest.title
        """The title in the PDF's metadata; empty if there is none, and for page images."""
        self.source: Source = manifest.source
        """The file or folder from which it was made."""
        self.is_bookmarked: bool = manifest.is_bookmarked
        """See `Manifest.is_bookmarked`."""

    def __reduce__(self) -> tuple:
        return self._store.document, (self.doc_id,)

    def __repr__(self) -> str:
        return f"Document({self.doc_id!r}, {self.num_pages} pages)"

    @property
    def num_pages(self) -> int:
        """Number of pages, at least 1."""
        return len(self._manifest.pages)

    @property
    def outline(self) -> list[OutlineEntry]:
        """The PDF's bookmarks, or headings found by its layout (`ingest --layout`), in order."""
        return list(self._manifest.outline)

    def digests(self, content: PageContent) -> list[str]:
        """Return the hashes of everything from which an index of `content` is built, in page order.

        For texts, this includes descriptions, titles and headings (`docagent_rl.retrieval.bm25`).
        """
        pages = self._manifest.pages
        if content is PageContent.IMAGE:
            return [page.image for page in pages]
        marks = json.dumps([_CONTEXTS, self.title, [astuple(entry) for entry in self.outline]])
        return [
            # without a description, a page's digest is just that of its text
            *(
                (page.text or "-") + (f"+{page.described}" if page.described else "")
                for page in pages
            ),
            hashlib.sha256(marks.encode("utf-8", "surrogatepass")).hexdigest(),
        ]

    def page(self, number: int) -> Page:
        """Return page `number`, 1-based; if there is no such page, raise a `UserError`."""
        if (
            isinstance(number, bool)
            or not isinstance(number, int)
            or not 1 <= number <= self.num_pages
        ):
            raise UserError(
                f"document {self.doc_id!r} has no page {number!r}: its pages are 1 to "
                f"{self.num_pages}"
            )
        return Page(self._store, PageRef(self.doc_id, number), self._manifest.pages[number - 1])


class Page:
    """A page of a document; reading a missing or damaged file raises a `UserError`."""

    def __init__(self, store: DocumentStore, ref: PageRef, record: PageEntry) -> None:
        self._store = store
        self.ref = ref
        self.size: tuple[int, int] = (record.width, record.height)
        """(width, height) of the raw raster in pixels, known without decoding it."""
        self.image_hash: str = record.image
        """SHA-256 of the stored JPEG file; it identifies the picture in all processes and runs."""
        self.text_hash: str | None = record.text
        """SHA-256 of the text in UTF-8; None if the page has no text."""
        self.described_hash: str | None = record.described
        """SHA-256 of the description in UTF-8; None if the page has no description."""
        self.reading: TextReading | None = record.reading
        """Source of the text, with the reason; None for pages that were made without text."""
        self.turned: Rotation = record.turned
        """The turn of the stored picture, which boxes in the original file need (`turned_box`)."""
        self.findings: tuple[Finding, ...] = record.findings
        """Defects of the page that were found when it was ingested."""

    def __reduce__(self) -> tuple:
        return self._store.page, (self.ref,)

    def __repr__(self) -> str:
        return f"Page({self.ref}, {self.size[0]}x{self.size[1]})"

    def image(self) -> Image.Image:
        """Return the raw raster, mode RGB; the caller owns it."""
        return self._store.decode(self.image_hash)

    def image_bytes(self) -> bytes:
        """Return the stored JPEG file."""
        return self._store.objects.image(self.image_hash)

    def text(self) -> str:
        """Return the text, from the text layer or by OCR (`reading`); empty if there is none."""
        return self._store.objects.text(self.text_hash) if self.text_hash else ""

    def searched_text(self) -> str:
        """Return the text followed by the description of the picture, as far as they exist.

        Only for ranking pages: agents and questions use `text`.
        """
        digests = filter(None, (self.text_hash, self.described_hash))
        return "\n\n".join(map(self._store.objects.text, digests))


@dataclass(frozen=True, slots=True)
class PageReplacement:
    """The picture and the text that replace those of a page."""

    picture: PageRef | None
    """The page whose picture and description to show; None: a white picture of the same size."""
    text: PageRef | None
    """The page whose text to use; None: no text."""


def derive(
    store: DocumentStore,
    target: Path,
    doc_ids: Iterable[str],
    replacements: Callable[[PageRef], PageReplacement],
    outline: Callable[[str, Sequence[OutlineEntry]], Sequence[OutlineEntry]],
) -> DocumentStore:
    """Make a store of the same documents, with the pages replaced by others.

    Pictures and texts that are still used are linked, or copied if the disk does not support links.
    The new store is complete or absent.

    Args:
        store: the store of the documents.
        target: folder of the new store; an existing one is replaced.
        doc_ids: the documents.
        replacements: returns what replaces the picture and text of a page.
        outline: returns the bookmarks to keep, from a document's id and its bookmarks.

    Raises:
        UserError: the store has no such document or page, or the folder cannot be written.
    """
    with atomic_dir(target) as folder:
        layout = StoreLayout(folder).create()
        for doc_id in sorted(set(doc_ids)):
            found = store.manifest(doc_id)
            pages = tuple(
                _page(store, layout.objects, replacements(PageRef(doc_id, number)), own)
                for number, own in enumerate(found.pages, start=1)
            )
            # the title would reveal what the pages no longer show
            entries = tuple(outline(doc_id, found.outline))
            manifest = replace(found, pages=pages, outline=entries, title="")
            layout.write_manifest(manifest)
        layout.seal_rest()
    return DocumentStore(target)


def gather(store: DocumentStore, target: Path, names: Mapping[str, str]) -> DocumentStore:
    """Make a store of some documents; `names` maps their ids to the ids in the new store.

    Pictures and texts are linked, or copied if the disk does not support links. The new store is
    complete or absent.

    Raises:
        UserError: the store has no such document, or the folder cannot be written.
    """
    with atomic_dir(target) as folder:
        layout = StoreLayout(folder).create()
        for doc_id, name in sorted(names.items(), key=lambda pair: pair[1]):
            found = store.manifest(doc_id)
            for digest, kind in (each for page in found.pages for each in page.objects()):
                _take(store.objects, layout.objects, digest, kind)
            layout.write_manifest(replace(found, doc_id=name))
        layout.seal_rest()
    return DocumentStore(target)


def _page(
    store: DocumentStore, objects: ObjectStore, replacement: PageReplacement, own: PageEntry
) -> PageEntry:
    def entry(ref: PageRef) -> PageEntry:
        return store.manifest(ref.doc_id).pages[ref.page - 1]

    if replacement.picture is None:
        page = PageEntry(own.width, own.height, objects.put(_white(own.width, own.height)), None)
    else:
        shown = entry(replacement.picture)
        page = replace(shown, text=None, reading=None)
    if replacement.text is not None:
        text = entry(replacement.text)
        page = replace(page, text=text.text, reading=text.reading)
    for digest, kind in page.objects():
        _take(store.objects, objects, digest, kind)
    return page


def _take(old: ObjectStore, new: ObjectStore, digest: str, kind: ObjectKind) -> None:
    source = old.path(digest, kind)
    target = new.path(digest, kind)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        old.read(digest, kind)  # raises an error that says what to do
        raise
    except OSError:  # another disk, or one without hard links
        shutil.copyfile(source, target)


@cache
def _white(width: int, height: int) -> bytes:
    return encode_jpeg(Image.new("RGB", (width, height), "white"), _WHITE_QUALITY, half_colour=True)
