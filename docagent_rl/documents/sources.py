"""The documents of a folder."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from docagent_rl.documents.failures import DocumentError, FailedDocument
from docagent_rl.documents.images import IMAGE_SUFFIXES, natural_key, order_pages, split_page_name
from docagent_rl.documents.layout import MARKER
from docagent_rl.errors import UserError


class SourceKind(StrEnum):
    """What a document is made from."""

    PDF = "pdf"
    IMAGES = "images"


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document to ingest."""

    doc_id: str
    kind: SourceKind
    files: tuple[Path, ...]
    """The PDF, or the page images in page order."""
    name: str
    """Path of the file or folder inside the ingested folder."""


@dataclass(slots=True)
class Sources:
    """What a folder holds."""

    documents: list[SourceDocument]
    failed: list[FailedDocument]
    """Files that belong to no document, with the reason."""


def discover(source: Path) -> Sources:
    """Find the documents under `source`, sorted by id.

    A PDF is a document named by the file without `.pdf`. A sub-folder that holds images is a document named
    by the folder, its pages in natural order. Images directly in `source` are named `<document>_<page>`.
    Hidden files and document stores are passed over; a single PDF may be given instead of a folder.

    Raises:
        UserError: `source` does not exist or holds no document, or two documents have the same id.
    """
    if not source.exists():
        raise UserError(f"{source} does not exist")
    found = Sources([], [])
    if source.is_file():
        if source.suffix.lower() != ".pdf":
            raise UserError(f"{source} is neither a folder nor a PDF")
        _add(found, SourceDocument(_stem(source), SourceKind.PDF, (source,), source.name))
    else:
        for folder, files in _walk(source):
            _discover_folder(found, source, folder, files)
    if not found.documents and not found.failed:
        suffixes = " ".join(sorted(IMAGE_SUFFIXES))
        raise UserError(f"no PDF and no page image ({suffixes}) under {source}")
    _check_unique(found.documents)
    found.documents.sort(key=lambda document: document.doc_id)
    return found


def _walk(source: Path) -> Iterator[tuple[Path, list[Path]]]:
    seen: set[str] = set()
    for name, folders, files in os.walk(source, followlinks=True):
        real = os.path.realpath(name)
        if MARKER in files or real in seen:  # seen: links may lead in a circle
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(folder for folder in folders if not folder.startswith("."))
        yield Path(name), [Path(name, file) for file in sorted(files) if not file.startswith(".")]


def _discover_folder(found: Sources, source: Path, folder: Path, files: list[Path]) -> None:
    for path in files:
        if path.suffix.lower() == ".pdf":
            name = path.relative_to(source).as_posix()
            _add(found, SourceDocument(_stem(path), SourceKind.PDF, (path,), name))
    images = [path for path in files if path.suffix.lower() in IMAGE_SUFFIXES]
    if images and folder == source:
        _discover_flat(found, images)
    elif images:
        pages = tuple(sorted(images, key=lambda path: natural_key(path.name)))
        name = folder.relative_to(source).as_posix()
        _add(found, SourceDocument(folder.name, SourceKind.IMAGES, pages, name))


def _discover_flat(found: Sources, images: list[Path]) -> None:
    by_document: dict[str, list[tuple[int, Path]]] = defaultdict(list)
    for path in images:
        try:
            doc_id, number = split_page_name(path.stem)
        except DocumentError as error:
            found.failed.append(FailedDocument(_printable(path.name), str(error)))
        else:
            by_document[doc_id].append((number, path))
    for doc_id, numbered in by_document.items():
        name = f"{doc_id}_*"
        try:
            pages = order_pages(numbered)
        except DocumentError as error:
            found.failed.append(FailedDocument(_printable(name), str(error)))
        else:
            _add(found, SourceDocument(doc_id, SourceKind.IMAGES, pages, name))


def _add(found: Sources, document: SourceDocument) -> None:
    try:
        document.name.encode("utf-8")
    except UnicodeEncodeError:
        found.failed.append(FailedDocument(_printable(document.name), "its name is not UTF-8: rename it"))
    else:
        found.documents.append(document)


def _check_unique(documents: list[SourceDocument]) -> None:
    first: dict[str, SourceDocument] = {}
    for document in documents:
        other = first.setdefault(document.doc_id, document)
        if other is not document:
            raise UserError(
                f"two documents have the id {document.doc_id!r}: {other.name} and {document.name}; rename one"
            )


def _stem(path: Path) -> str:
    """The name without `.pdf` alone: `report.v1.2.pdf` is `report.v1.2`."""
    return path.name[: -len(".pdf")]


def _printable(name: str) -> str:
    return name.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")
