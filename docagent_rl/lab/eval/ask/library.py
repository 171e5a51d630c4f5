"""Documents of one's own, ingested and indexed once, by content."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write, writable
from docagent_rl.config import DocAgentConfig
from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.retrieval.config import Backend

_VERSION = 1
_NAME = 48
_READY = "ready.json"


def cache_folder() -> Path:
    """Where documents are kept that are asked about: `docagent-rl` in `$XDG_CACHE_HOME` or `~/.cache`."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "docagent-rl"


@dataclass(frozen=True, slots=True)
class Shelf:
    """A workspace that holds some documents and nothing else.

    Args:
        workspace: as recipes know it: `store`, `index`, `index_<model>`.
        doc_ids: the documents, in the order in which they were named.
    """

    workspace: Path
    doc_ids: tuple[str, ...]

    @property
    def store(self) -> Path:
        """The document store."""
        return self.workspace / "store"


def shelve(documents: Sequence[Path], root: Path, settings: RenderSettings | None = None) -> Shelf:
    """Ingest documents, or find them ingested: the same files again are there at once, whatever their folder.

    Args:
        documents: PDFs.
        root: folder of all workspaces.
        settings: how pages are rendered.

    Raises:
        UserError: a file is missing or cannot be read as a document, or the folder cannot be written.
    """
    settings = settings or RenderSettings()
    digests = [_digest(document) for document in documents]
    if len(set(digests)) < len(digests):
        raise UserError("the same document is named twice")
    key = json.dumps([_VERSION, digests, [each.name for each in documents], repr(settings)])
    workspace = root / hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:20]
    with _alone(workspace):
        found = _ready(workspace)
        return found if found is not None else _ingested(documents, digests, workspace, settings)


def build_indexes(shelf: Shelf, config: DocAgentConfig) -> None:
    """Build what the retrievers of a configuration read; what is there and current stays.

    Raises:
        UserError: the model of an index is not on this machine, or no page has text.
    """
    from docagent_rl.retrieval.bm25 import BM25Settings
    from docagent_rl.retrieval.building import build_bm25, build_vectors

    store, progress = DocumentStore(shelf.store), sys.stderr.isatty()
    with _alone(shelf.workspace):
        for section, whole in config.retrievers().items():
            for _, each in whole.flat(section):
                if each.backend is not Backend.LOCAL or each.index is None:
                    continue
                if each.model is None:
                    build_bm25(store, each.index, BM25Settings(), force=True, progress=progress)
                else:
                    build_vectors(store, each.index, each.model, progress=progress)


def _digest(document: Path) -> str:
    if not document.is_file():
        raise UserError(f"{document}: no such file; name a PDF")
    with document.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _ingested(
    documents: Sequence[Path], digests: Sequence[str], workspace: Path, settings: RenderSettings
) -> Shelf:
    folder = workspace / "documents"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    names = [_name(each) for each in documents]
    if len({name.casefold() for name in names}) < len(names):
        names = [f"{name}-{digest[:8]}" for name, digest in zip(names, digests, strict=True)]
    try:
        for document, name in zip(documents, names, strict=True):
            shutil.copyfile(document, folder / f"{name}.pdf")
        report = ingest(folder, workspace / "store", settings=settings, progress=sys.stderr.isatty())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if report.failed:
        told = "; ".join(f"{each.name}: {each.reason}" for each in report.failed)
        raise UserError(f"not a document that can be read: {told}")
    atomic_write(workspace / _READY, json.dumps({"version": _VERSION, "doc_ids": names}) + "\n")
    return Shelf(workspace, tuple(names))


def _name(document: Path) -> str:
    """A file's name as the name of a document: letters, digits, dots and dashes alone."""
    kept = "".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in document.stem)
    return kept.strip("._")[:_NAME] or "document"


def _ready(workspace: Path) -> Shelf | None:
    try:
        found = json.loads((workspace / _READY).read_bytes())
        names = tuple(str(name) for name in found["doc_ids"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        store = DocumentStore(workspace / "store")
    except UserError:
        return None
    return Shelf(workspace, names) if all(name in store for name in names) else None


@contextmanager
def _alone(workspace: Path) -> Generator[None]:
    """Let one process at a time work on a workspace; others wait for it."""
    with writable(workspace):
        workspace.mkdir(parents=True, exist_ok=True)
        handle = os.open(workspace / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
