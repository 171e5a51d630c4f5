"""Building and updating an index whose vectors are in an engine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.config import EngineConfig, SearchEngine
from docagent_rl.retrieval.engines.collection import broken_documents, open_collection
from docagent_rl.retrieval.engines.contents import CollectionHeader, Engine, Phase, VectorPage
from docagent_rl.retrieval.index_files import ENCODED, IndexFiles, index_engine
from docagent_rl.retrieval.vectors.bank import rounded
from docagent_rl.retrieval.vectors.build import BuiltIndex
from docagent_rl.retrieval.vectors.encoding import PageVectors, encode_documents
from docagent_rl.retrieval.vectors.index import StoredDocument, VectorKind
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm, pooled

if TYPE_CHECKING:
    from docagent_rl.retrieval.engines.collection import Collection

_NUMBERS = 1 << 24
"""Maximum count of numbers in the vectors to store at a time: 64 MB."""
_HEADER_SHARE = 20
"""Writing the header, which names all documents, may take one in this many seconds."""


def build_collection(
    store: DocumentStore,
    vectors: PageVectors,
    path: str | Path,
    *,
    engine: Engine,
    kind: VectorKind,
    form: VectorForm | None = None,
    url: str | None = None,
    token_env: str | None = None,
    replace: bool = False,
) -> BuiltIndex:
    """Build a collection of the pages of a store, or update it.

    New and changed documents are encoded, and those that are gone are removed. A build that was
    killed at any time resumes with what is unfinished (`Phase`); concurrent builds wait for each
    other.

    Args:
        store: the documents.
        vectors: the encoder.
        path: the folder of the index.
        engine: the engine that stores the collection.
        kind: kind of the vectors.
        form: form of the vectors; the engine determines the precision.
        url: address of the engine; None: the folder.
        token_env: environment variable with the token for the engine's server.
        replace: replace another index in the folder, including its collection.

    Raises:
        UserError: The folder or the server contains another index, or a precision is given.
        InfrastructureError: A node, the encoder or the engine fails.
    """
    form = form or VectorForm()
    if form.precision is not Precision.BFLOAT16:
        raise UserError(
            f"--precision {form.precision.value} is for embedded indexes: {engine.value} "
            "compresses its first stage itself, and scores the best pages with whole vectors"
        )
    files = IndexFiles(Path(path))
    name = files.root.absolute().name
    place = {"form": form, "engine": engine, "url": url, "collection": name, "token_env": token_env}
    wanted = CollectionHeader.of(store, vectors.facts(), kind, **place)
    opened = open_collection(files, wanted, EngineConfig())
    with files.claimed():
        job = _Update(
            files, _prepared(files, wanted, opened, replace=replace), opened, wanted.documents
        )
        for document, pages in encode_documents(vectors, store, job.missing):
            job.put(document, pooled(pages, form.pooled))
        filled = job.finish()
    new = sum(document.pages for document in job.missing)
    return BuiltIndex(wanted.num_pages, len(wanted.documents), new, wanted.num_pages - filled)


def _prepared(
    files: IndexFiles, header: CollectionHeader, collection: Collection, *, replace: bool
) -> CollectionHeader:
    """Make sure that the folder's header names the collection and that this exists.

    Returns:
        The header, with the documents that the collection contains.
    """
    there = _header(files, replace=replace)
    same = there is not None and there.without_documents() == header.without_documents()
    ours = there is not None and (there.url, there.collection) == (header.url, header.collection)
    if there is not None and not same and not replace:
        raise UserError(
            f"{files.root} is an index of {there.place}, with another model or in another place: "
            "replace it with --force, or name another folder"
        )
    if not ours and header.url is not None and collection.exists():
        raise UserError(
            f"{header.place} exists already and does not belong to {files.root}: give the folder "
            "another name, or remove the collection on the server"
        )
    if there is not None and same and there.phase is not Phase.MAKING and collection.exists():
        contents = {"documents": there.documents, "filled": there.filled, "phase": there.phase}
        return header.model_copy(update=contents)
    header = header.model_copy(update={"documents": ()})
    # written before the collection is created, so that vectors of another model are never taken for
    # those of this one
    files.write_header(header)
    files.sweep(rf"files-.*|{ENCODED}")
    collection.create()
    return header


def _header(files: IndexFiles, *, replace: bool) -> CollectionHeader | None:
    if not files.header.is_file():
        return None
    if index_engine(files.root) is SearchEngine.EMBEDDED and replace:
        return None
    try:
        return files.read(lambda data, found: found.parse(CollectionHeader, data)).unsaved()
    except UserError:
        if replace:
            return None
        raise


class _Update:
    """One update of a collection; documents are stored in batches and then added to the header."""

    def __init__(
        self,
        files: IndexFiles,
        header: CollectionHeader,
        collection: Collection,
        documents: Sequence[StoredDocument],
    ) -> None:
        self._files = files
        self._header = header
        self._collection = collection
        self._kept, removed = _sound(header, collection, documents)
        self._filled = {doc_id: header.filled[doc_id] for doc_id in self._kept}
        self.missing = [each for each in documents if each.doc_id not in self._kept]
        self._pages: list[VectorPage] = []
        changes = self.missing or removed
        self._write_header(Phase.FILLING if changes else header.phase)
        self._next_header = 0.0
        if removed:
            collection.remove(removed)

    def put(self, document: StoredDocument, pages: Sequence[np.ndarray]) -> None:
        """Add the vectors of all pages of a document, float32 of shape (n, dim) each, n >= 0."""
        found = [
            VectorPage(PageRef(document.doc_id, number), document.digest, rounded(vectors))
            for number, vectors in enumerate(pages, 1)
            if len(vectors)
        ]
        self._kept[document.doc_id] = document
        self._filled[document.doc_id] = len(found)
        self._pages += found
        if sum(page.vectors.size for page in self._pages) > _NUMBERS:
            self._store()

    def finish(self) -> int:
        """Store the last batch, and return the total number of pages with vectors."""
        self._store()
        if self._header.phase is not Phase.FINISHED:
            self._write_header(Phase.FILLING)
            self._collection.finish()
            self._write_header(Phase.FINISHED)
        return sum(self._filled.values())

    def _store(self) -> None:
        if self._pages:
            self._collection.add(self._pages)
        self._pages = []
        if time.monotonic() >= self._next_header:
            self._write_header(Phase.FILLING)

    def _write_header(self, phase: Phase) -> None:
        documents = tuple(self._kept[doc_id] for doc_id in sorted(self._kept))
        contents = {"documents": documents, "filled": dict(self._filled), "phase": phase}
        began = time.monotonic()
        self._header = self._header.model_copy(update=contents)
        self._files.write_header(self._header)
        ended = time.monotonic()
        self._next_header = ended + _HEADER_SHARE * (ended - began)


def _sound(
    header: CollectionHeader, collection: Collection, documents: Sequence[StoredDocument]
) -> tuple[dict[str, StoredDocument], list[str]]:
    """Return the stored documents that are unchanged, and the ids of the others to remove."""
    stored = {document.doc_id for document in header.documents}
    broken: set[str] = set()
    if collection.count() != header.num_filled:
        # a killed build left pages, or somebody removed some
        broken = broken_documents(collection, header)
    now = set(documents)
    kept = {
        each.doc_id: each for each in header.documents if each.doc_id not in broken and each in now
    }
    return kept, sorted((stored | broken) - kept.keys())
