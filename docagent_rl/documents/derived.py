"""Stores made of others: the same documents with other pages."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from PIL import Image

from docagent_rl.base.io import atomic_dir
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import Manifest, OutlineEntry, PageEntry, dump_record
from docagent_rl.documents.objects import Kind, ObjectStore
from docagent_rl.documents.refs import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.writing import write

_WHITE_QUALITY = 90


@dataclass(frozen=True, slots=True)
class Face:
    """What takes the place of a page.

    Args:
        picture: the page whose picture is shown; None: a white one of the same size.
        text: the page whose text there is; None: none.
    """

    picture: PageRef | None
    text: PageRef | None


Faces = Callable[[PageRef], Face]
Outline = Callable[[str, Sequence[OutlineEntry]], Sequence[OutlineEntry]]
"""From a document's id and its bookmarks to those that are left."""


def derive(
    store: DocumentStore, target: Path, doc_ids: Iterable[str], faces: Faces, outline: Outline
) -> DocumentStore:
    """Make a store of the same documents, with as many pages, that shows others in their places.

    Pictures and texts that stay are linked, or copied where the disk has no links. The store is whole or
    absent.

    Args:
        store: of the documents.
        target: folder of the new store; one that is there is replaced.
        doc_ids: the documents.
        faces: what takes the place of each page.
        outline: what becomes of bookmarks.

    Raises:
        UserError: the store holds no such document or page, or the folder cannot be written.
    """
    with atomic_dir(target) as folder:
        layout = StoreLayout(folder).create()
        maker = _Maker(store, layout.objects, faces)
        for doc_id in sorted(set(doc_ids)):
            manifest = maker.manifest(doc_id, outline)
            write(layout.manifest(doc_id), dump_record(manifest))
    return DocumentStore(target)


@dataclass(frozen=True, slots=True)
class _Maker:
    store: DocumentStore
    objects: ObjectStore
    faces: Faces

    def manifest(self, doc_id: str, outline: Outline) -> Manifest:
        found = self.store.manifest(doc_id)
        numbers = range(1, len(found.pages) + 1)
        pages = tuple(self._page(PageRef(doc_id, number), found.pages[number - 1]) for number in numbers)
        return replace(found, pages=pages, outline=tuple(outline(doc_id, found.outline)))

    def _page(self, ref: PageRef, own: PageEntry) -> PageEntry:
        face = self.faces(ref)
        words = self._entry(face.text)
        width, height = own.width, own.height
        if face.picture is None:
            image = self.objects.put_image(_white(width, height))
        else:
            shown = self._entry(face.picture) or own
            image, width, height = shown.image, shown.width, shown.height
            self._take(image, Kind.IMAGE)
        if words is None:
            return PageEntry(width, height, image, None)
        for digest in (words.text, words.typography, words.words):
            if digest is not None:
                self._take(digest, Kind.TEXT)
        return replace(words, width=width, height=height, image=image)

    def _entry(self, ref: PageRef | None) -> PageEntry | None:
        return None if ref is None else self.store.manifest(ref.doc_id).pages[ref.page - 1]

    def _take(self, digest: str, kind: Kind) -> None:
        source, target = self.store.objects.path(digest, kind), self.objects.path(digest, kind)
        if target.exists():
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except FileNotFoundError:
            self.store.objects.verify(digest, kind)  # says what to do
            raise
        except OSError:  # another disk, or one without links
            shutil.copyfile(source, target)


@cache
def _white(width: int, height: int) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (width, height), "white").save(buffer, format="JPEG", quality=_WHITE_QUALITY)
    return buffer.getvalue()
