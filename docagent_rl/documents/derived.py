"""Stores made of others: the same documents with other pages."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from PIL import Image

from docagent_rl.base.io import atomic_dir
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import OutlineEntry, PageEntry, dump_record
from docagent_rl.documents.objects import Kind, ObjectStore, write
from docagent_rl.documents.refs import PageRef
from docagent_rl.documents.render import encode_jpeg
from docagent_rl.documents.store import DocumentStore

_WHITE_QUALITY = 90


@dataclass(frozen=True, slots=True)
class Face:
    """The picture and the text that take the place of a page's.

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
        faces: gives the face of each page.
        outline: gives the bookmarks that stay.

    Raises:
        UserError: the store holds no such document or page, or the folder cannot be written.
    """
    with atomic_dir(target) as folder:
        layout = StoreLayout(folder).create()
        for doc_id in sorted(set(doc_ids)):
            found = store.manifest(doc_id)
            pages = tuple(
                _page(store, layout.objects, faces(PageRef(doc_id, number)), own)
                for number, own in enumerate(found.pages, start=1)
            )
            manifest = replace(found, pages=pages, outline=tuple(outline(doc_id, found.outline)))
            write(layout.manifest(doc_id), dump_record(manifest))
    return DocumentStore(target)


def _page(store: DocumentStore, objects: ObjectStore, face: Face, own: PageEntry) -> PageEntry:
    def entry(ref: PageRef) -> PageEntry:
        return store.manifest(ref.doc_id).pages[ref.page - 1]

    if face.picture is None:
        page = PageEntry(own.width, own.height, objects.put(_white(own.width, own.height)), None)
    else:
        shown = entry(face.picture)
        page = PageEntry(shown.width, shown.height, shown.image, None)
        _take(store.objects, objects, shown.image, Kind.IMAGE)
    if face.text is None:
        return page
    text = entry(face.text)
    for digest, kind in text.objects().values():
        if kind is Kind.TEXT:
            _take(store.objects, objects, digest, kind)
    return replace(text, width=page.width, height=page.height, image=page.image)


def _take(old: ObjectStore, new: ObjectStore, digest: str, kind: Kind) -> None:
    source, target = old.path(digest, kind), new.path(digest, kind)
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(source, target)
    except FileNotFoundError:
        old.read(digest, kind)  # says what to do
        raise
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)


@cache
def _white(width: int, height: int) -> bytes:
    return encode_jpeg(Image.new("RGB", (width, height), "white"), _WHITE_QUALITY, half_colour=True)
