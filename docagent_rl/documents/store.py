"""The document store, for readers."""

from __future__ import annotations

import difflib
import hashlib
import io
import threading
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path

import cachetools
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.document import Document, Page
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import Manifest
from docagent_rl.documents.objects import Kind, ObjectStore
from docagent_rl.documents.refs import PageRef
from docagent_rl.documents.shown import ShownRasters

_CACHED_MANIFESTS = 256


class PageContent(StrEnum):
    """What of a page an index is built from."""

    IMAGE = "image"
    TEXT = "text"


class DocumentStore:
    """The documents that `docagent_rl.documents.ingest` wrote to a folder.

    Reading is lazy and cached, and may be done from many threads and processes; a pickled store carries its
    path and opens it anew. A manifest once read is kept: a document ingested again is seen by stores opened
    after that.

    Args:
        path: The folder of the store.
        image_cache: Number of decoded rasters to keep (about 6 MB each for A4 at 144 dpi).
        shown: Where pages are kept at the sizes that they are shown at; None: nowhere.

    Raises:
        UserError: The folder is not a store.
    """

    def __init__(self, path: str | Path, *, image_cache: int = 16, shown: ShownRasters | None = None) -> None:
        self.path = Path(path).absolute()
        self._layout = StoreLayout(self.path).require()
        self._image_cache = image_cache
        self.shown = shown
        self._images: cachetools.LRUCache[str, Image.Image] = cachetools.LRUCache(image_cache)
        self._manifests: cachetools.LRUCache[str, Manifest] = cachetools.LRUCache(_CACHED_MANIFESTS)
        # a manifest's file name is the hash of its id, so what was read once stays right
        self._ids_by_file: dict[str, str] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple:
        return _reopen, (self.path, self._image_cache, self.shown)

    def __repr__(self) -> str:
        return f"DocumentStore({str(self.path)!r})"

    @property
    def objects(self) -> ObjectStore:
        """The content-addressed rasters and texts."""
        return self._layout.objects

    def manifest_path(self, doc_id: str) -> Path:
        """The manifest of a document, there or not."""
        return self._layout.manifest(doc_id)

    def doc_ids(self) -> list[str]:
        """The ids of all documents, sorted."""
        ids = []
        for path in self._layout.manifests():
            doc_id = self._ids_by_file.get(path.name)
            if doc_id is None:
                try:
                    doc_id = self._layout.read_manifest(path).doc_id
                except FileNotFoundError:  # taken out since it was listed
                    continue
                self._ids_by_file[path.name] = doc_id
            ids.append(doc_id)
        return sorted(ids)

    def __contains__(self, doc_id: object) -> bool:
        return isinstance(doc_id, str) and self._layout.manifest(doc_id).is_file()

    def __len__(self) -> int:
        return sum(1 for _ in self._layout.manifests())

    def manifest(self, doc_id: str) -> Manifest:
        """What the store knows of a document.

        Raises:
            UserError: The store has no such document, or its manifest is damaged.
        """
        with self._lock:
            manifest = self._manifests.get(doc_id)
        if manifest is None:
            try:
                manifest = self._layout.read_manifest(self._layout.manifest(doc_id))
            except FileNotFoundError as error:
                raise unknown_document(doc_id, self.doc_ids(), f"the document store {self.path}") from error
            with self._lock:
                self._manifests[doc_id] = manifest
        return manifest

    def document(self, doc_id: str) -> Document:
        """A document.

        Raises:
            UserError: The store has no such document, or its manifest is damaged.
        """
        return Document(self, self.manifest(doc_id))

    def page(self, ref: PageRef) -> Page:
        """A page.

        Raises:
            UserError: The store has no such document or page.
        """
        return self.document(ref.doc_id).page(ref.page)

    def pages(self) -> Iterator[PageRef]:
        """All pages of all documents, in the order of `PageRef`."""
        for doc_id in self.doc_ids():
            for number in range(1, self.document(doc_id).num_pages + 1):
                yield PageRef(doc_id, number)

    def fingerprint(self, content: PageContent) -> str:
        """SHA-256 over all documents' ids and the hashes of their pages' images or texts.

        An index keeps it to notice that the store has changed since; a change of the rasters leaves the
        fingerprint of the texts as it was.
        """
        digest = hashlib.sha256()
        for doc_id in self.doc_ids():
            pages = self.manifest(doc_id).pages
            hashes = [page.image if content is PageContent.IMAGE else page.text or "-" for page in pages]
            # lengths first, so that no two corpora give the same stream
            name = doc_id.encode("utf-8")
            digest.update(f"{len(name)} {len(hashes)} ".encode() + name + " ".join(hashes).encode())
        return digest.hexdigest()

    def decode(self, image_hash: str) -> Image.Image:
        """A stored raster as a fresh RGB image.

        Raises:
            UserError: The object is missing or damaged.
        """
        with self._lock:
            image = self._images.get(image_hash)
        if image is None:
            try:
                with Image.open(io.BytesIO(self.objects.image(image_hash)), formats=("JPEG",)) as file:
                    image = file.convert("RGB")
            except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
                path = self.objects.path(image_hash, Kind.IMAGE)
                raise UserError(f"{path} is not a picture ({error}): ingest the document again") from error
            with self._lock:
                if self._image_cache:
                    self._images[image_hash] = image
        # a copy, so that a caller who draws on it does not draw on everybody's page
        return image.copy()


def unknown_document(doc_id: str, known: Iterable[str], place: str) -> UserError:
    """The error for an id that `place` does not hold, with the ids most like it."""
    ids = list(known)
    similar = difflib.get_close_matches(doc_id, ids, n=3)
    if similar:
        hint = "did you mean " + " or ".join(repr(name) for name in similar) + "?"
    else:
        hint = f"it holds {len(ids)} documents" + (f", such as {ids[0]!r}" if ids else "")
    return UserError(f"no document {doc_id!r} in {place}: {hint}")


def _reopen(path: Path, image_cache: int, shown: ShownRasters | None) -> DocumentStore:
    return DocumentStore(path, image_cache=image_cache, shown=shown)
