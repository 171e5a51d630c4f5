"""The documents of a folder."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.terminal import id_problem, one_line
from docagent_rl.base.text import lone_surrogate
from docagent_rl.documents.images import IMAGE_SUFFIXES, OTHER_SUFFIXES, document_name, order_pages
from docagent_rl.documents.layout import MARKER
from docagent_rl.documents.limits import DocumentError
from docagent_rl.documents.report import FailedDocument

_SUFFIXES = IMAGE_SUFFIXES | OTHER_SUFFIXES | {".pdf"}


class SourceKind(StrEnum):
    """The kinds of sources."""

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
    """The documents of a folder."""

    documents: list[SourceDocument] = field(default_factory=list)
    failed: list[FailedDocument] = field(default_factory=list)
    """Files that belong to no document and folders that cannot be read, with the reason."""

    def add(self, document: SourceDocument) -> None:
        """Add a document, or the reason why its name is not one."""
        if problem := _name_problem(document.name):
            self.fail(document.name, problem)
        else:
            self.documents.append(document)

    def fail(self, name: str, reason: str) -> None:
        """Add what is left out."""
        self.failed.append(FailedDocument(_printable(name), reason))


def discover(source: Path) -> Sources:
    """Find the documents under `source`, sorted by id.

    A PDF is a document named by the file without `.pdf`. A sub-folder that holds images is a document named
    by the folder. Images directly in `source` are named `<document>_<page>`. In both, the last number in a
    file's name is that of its page, and pages run from 1 without gaps. Hidden files and document stores are
    passed over, links that lead out of `source` are reported; a single PDF may be given instead of a folder.

    Raises:
        UserError: `source` does not exist, cannot be read or holds no document, or two documents have the
            same id.
    """
    try:
        if not source.exists():
            raise UserError(f"{source} does not exist")
    except OSError as error:
        raise UserError(f"{source} cannot be read ({error.strerror or error})") from error
    found = Sources()
    if source.is_file():
        if source.suffix.lower() != ".pdf":
            raise UserError(f"{source} is neither a folder nor a PDF")
        found.add(_pdf(source, source.name))
    else:
        for folder, files in _walk(source, found):
            _discover_folder(found, source, folder, files)
    if not found.documents and not found.failed:
        suffixes = " ".join(sorted(IMAGE_SUFFIXES))
        raise UserError(f"no PDF and no page image ({suffixes}) under {source}")
    found.documents.sort(key=lambda document: document.doc_id)
    for one, two in zip(found.documents, found.documents[1:], strict=False):
        if one.doc_id == two.doc_id:
            raise UserError(
                f"two documents have the id {one.doc_id!r}: {one.name} and {two.name}; rename one"
            )
    return found


def _walk(source: Path, found: Sources) -> Iterator[tuple[Path, list[Path]]]:
    def report(error: OSError) -> None:
        reason = f"the folder cannot be read ({error.strerror or error})"
        folder = Path(error.filename)
        if folder == source:
            raise UserError(f"{source}: {reason}") from error
        found.fail(_name(folder, source), reason)

    seen: set[str] = set()
    for name, folders, files in os.walk(source, onerror=report, followlinks=True):
        real = os.path.realpath(name)
        if MARKER in files or real in seen:  # seen: links may lead in a circle
            folders.clear()
            continue
        seen.add(real)
        visible = [Path(name, folder) for folder in sorted(folders) if not folder.startswith(".")]
        folders[:] = [folder.name for folder in visible if _stays(found, source, folder)]
        paths = [Path(name, file) for file in sorted(files) if not file.startswith(".")]
        read = [path for path in paths if path.suffix.lower() in _SUFFIXES]
        yield Path(name), [path for path in read if _stays(found, source, path)]


def _stays(found: Sources, source: Path, path: Path) -> bool:
    """Whether a path leads to what is inside `source`; one that does not is reported."""
    reason = link_out(path, source)
    if reason is not None:
        found.fail(_name(path, source), reason)
    return reason is None


def link_out(path: Path, folder: Path) -> str | None:
    """Return why a file or folder in `folder` is not read: it is, or is behind, a link out of it."""
    target = Path(os.path.realpath(path))
    if target.is_relative_to(os.path.realpath(folder)):
        return None
    return _printable(f"a link that leads out of the folder, to {target}: put a copy in its place")


def _discover_folder(found: Sources, source: Path, folder: Path, files: list[Path]) -> None:
    by_document: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        if path.suffix.lower() == ".pdf":
            found.add(_pdf(path, _name(path, source)))
            continue
        try:
            by_document[document_name(path.stem) if folder == source else folder.name].append(path)
        except DocumentError as error:
            found.fail(path.name, str(error))
    for doc_id, paths in by_document.items():
        _discover_images(found, source, doc_id, paths)


def _discover_images(found: Sources, source: Path, doc_id: str, paths: list[Path]) -> None:
    others = [path for path in paths if path.suffix.lower() in OTHER_SUFFIXES]
    for path in others:  # without them the pages of the others would be wrong
        reason = "a picture of a kind that is not read: write it as PNG or JPEG, or take it out"
        found.fail(_name(path, source), reason)
    if others:
        return
    folder = paths[0].parent
    name = f"{doc_id}_*" if folder == source else _name(folder, source)
    try:
        found.add(SourceDocument(doc_id, SourceKind.IMAGES, order_pages(paths), name))
    except DocumentError as error:
        found.fail(name, str(error))


def _pdf(path: Path, name: str) -> SourceDocument:
    # without `.pdf` alone: `report.v1.2.pdf` is `report.v1.2`
    return SourceDocument(path.name[: -len(".pdf")], SourceKind.PDF, (path,), name)


def _name(path: Path, source: Path) -> str:
    return path.relative_to(source).as_posix()


def _name_problem(name: str) -> str | None:
    """Return why a name would not be the same everywhere, or cannot be shown; None: it can."""
    if name.isascii():
        return id_problem(name)
    encoding = sys.getfilesystemencoding()
    if encoding != "utf-8":
        # the same file would have another id under another locale
        return f"names of files are read as {encoding} here: set PYTHONUTF8=1 or a UTF-8 locale"
    return "its name is not UTF-8: rename it" if lone_surrogate(name) else id_problem(name)


def _printable(name: str) -> str:
    return one_line(name.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace"))
