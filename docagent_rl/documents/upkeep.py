"""Removal of documents from a store, and of objects that no document needs any more."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

from rich.console import Console

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import writable
from docagent_rl.base.seals import read_seal
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.manifest import ChunkEntry, PageEntry, read_record
from docagent_rl.documents.objects import ObjectKind, is_digest
from docagent_rl.documents.references import unknown_document
from docagent_rl.documents.shown import prune_shown, shown_folder
from docagent_rl.documents.sources import Sources

_WAITING = "An ingest is writing to this store: waiting for it to end ..."


@dataclass(frozen=True, slots=True)
class Pruned:
    """The result of `prune`."""

    files: int
    bytes: int
    """Total size of the removed files."""
    ranges: int
    """Number of page ranges of interrupted ingests, which were kept."""


def remove(store: Path, doc_ids: Sequence[str]) -> None:
    """Remove documents from a store; `prune` then frees their disk space.

    Lost documents, and those whose removal was interrupted by a kill, are removed from the seal.

    Raises:
        UserError: one of them has never been in the store, in which case none is removed; or the
            store cannot be written.
    """
    layout = StoreLayout(store).require()
    with layout.lock(partial(Console(stderr=True).print, _WAITING)):
        for doc_id in doc_ids:
            if not (layout.manifest(doc_id).is_file() or layout.has_held(doc_id)):
                known = sorted(manifest.doc_id for manifest in layout.sound_manifests())
                raise unknown_document(doc_id, known, f"the document store {store}")
        layout.remove_manifests(doc_ids)


def prune(store: Path) -> Pruned:
    """Delete pictures and texts that no document of a store uses, drawn pages next to it included.

    The function waits for a running ingest, and keeps what interrupted ones have stored. A reader
    that opened the store before a document was removed or replaced can then no longer read it.

    Raises:
        UserError: a document is damaged or lost, so it is unknown what it needs, and nothing was
            deleted; or the store cannot be written.
    """
    layout = StoreLayout(store).require()
    with layout.lock(partial(Console(stderr=True).print, _WAITING)):
        layout.remove_leftovers()
        needed = _needed_by_documents(layout)
        ranges = [
            read_record(ChunkEntry, path) for path in layout.root.glob("partial/*/[!.]*.json")
        ]
        for record in ranges:
            needed.update(_objects(record.pages))
        files = size = 0
        with writable(layout.root):
            for path in layout.objects.root.glob("[0-9a-f][0-9a-f]/[!.]*"):
                name = _object(path)
                if name is not None and name not in needed:
                    size += path.stat().st_size
                    path.unlink()
                    files += 1
    pages = {digest for digest, kind in needed if kind is ObjectKind.IMAGE}
    # also pages of another store that runs showed instead: they are drawn again when needed
    drawn, drawn_size = prune_shown(shown_folder(layout.root), pages)
    return Pruned(files + drawn, size + drawn_size, len(ranges))


def _needed_by_documents(layout: StoreLayout) -> set[tuple[str, ObjectKind]]:
    sealed = read_seal(layout.root)
    needed = set()
    for name, record in sealed.records.items():
        if record.about and name not in sealed.begun and not (layout.root / name).is_file():
            raise UserError(
                f"the document {record.about!r} is lost from {layout.root}: ingest it again, or "
                "remove it with `docagent-rl store remove`"
            )
    for path in layout.manifests():
        needed.update(_objects(layout.read_manifest(path).pages))
    return needed


def _objects(pages: Iterable[PageEntry]) -> Iterable[tuple[str, ObjectKind]]:
    return (each for page in pages for each in page.objects())


def _object(path: Path) -> tuple[str, ObjectKind] | None:
    """Return the digest and kind of the object in a file; None if it is not an object."""
    digest, _, end = path.name.partition(".")
    kind = next((kind for kind in ObjectKind if kind.value == f".{end}"), None)
    return None if kind is None or not is_digest(digest) else (digest, kind)


def remove_gone(layout: StoreLayout, found: Sources, most: int) -> tuple[list[str], list[str]]:
    """Remove documents whose files are gone from a folder; the caller must hold the lock.

    A document stays if its file or folder, or a folder above it, exists but cannot be read or is
    left out for another reason.

    Args:
        layout: the store, into which all documents of the folder have been ingested.
        found: the documents of the folder.
        most: the maximum number of documents to remove, not counting those whose content is in the
            store under another id. If more are gone, none is removed.

    Returns:
        Ids of the documents that were removed, and of those that stay because they are too many:
        one of the lists is empty.
    """
    there = {document.doc_id for document in found.documents}
    left_out = [failure.name for failure in found.failed]
    contents = set()
    gone = []
    for manifest in layout.sound_manifests():
        source = manifest.source
        if manifest.doc_id in there or any(_concerns(name, source.name) for name in left_out):
            contents.add(source.sha256)
        else:
            gone.append(manifest)
    doc_ids = [manifest.doc_id for manifest in gone]
    if sum(manifest.source.sha256 not in contents for manifest in gone) > most:
        return [], doc_ids
    if doc_ids:
        layout.remove_manifests(doc_ids)
    return doc_ids, []


def _concerns(failed: str, source: str) -> bool:
    """Return whether a path that was left out is a source, contains it, or is a part of it."""
    if source.endswith("_*"):  # images named <document>_<page>
        return failed.startswith(source.removesuffix("*"))
    one = PurePosixPath(failed)
    other = PurePosixPath(source)
    return one.is_relative_to(other) or other.is_relative_to(one)
