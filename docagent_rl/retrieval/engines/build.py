"""Building of a collection, and bringing one up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.retrieval.config import EngineConfig, SearchEngine
from docagent_rl.retrieval.engines.collection import (
    Collection,
    CollectionHeader,
    Engine,
    HeldDocument,
    VectorPage,
    differences,
    open_collection,
)
from docagent_rl.retrieval.index_files import ENCODED, IndexFiles, index_engine
from docagent_rl.retrieval.vectors.build import BuiltIndex, source_and_documents
from docagent_rl.retrieval.vectors.encoding import PageVectors, encode_documents
from docagent_rl.retrieval.vectors.index import Kind, StoredDocument
from docagent_rl.retrieval.vectors.maxsim import rounded

_NUMBERS = 1 << 24
"""Numbers of vectors that are stored at a time: 64 MB."""


@dataclass(frozen=True, slots=True)
class CollectionPlace:
    """The place of a collection: an engine, a server's address (none: the folder), a name, a token."""

    engine: Engine
    url: str | None = None
    name: str | None = None
    """None: that of the folder."""
    token_env: str | None = None


def build_collection(
    store: DocumentStore,
    vectors: PageVectors,
    path: str | Path,
    *,
    where: CollectionPlace,
    kind: Kind,
    progress: bool = False,
    replace: bool = False,
) -> BuiltIndex:
    """Bring a collection to the pages of a store: new and changed documents are encoded, others removed.

    A build that was killed goes on with the documents that it did not finish. `path` is the folder of the
    index; `replace` lets another index in it give way, a collection of its own too. See
    `vectors.build.build_index`.

    Raises:
        UserError: the folder or the server holds another index.
        InfrastructureError: a node, the encoder or the engine fails.
    """
    facts, files = vectors.facts(), IndexFiles(Path(path))
    source, documents = source_and_documents(store, facts, kind)
    header = CollectionHeader(
        kind=kind,
        engine=where.engine,
        url=where.url,
        collection=where.name or files.root.absolute().name,
        token_env=where.token_env,
        source=source,
        spec=dict(facts.spec),
    )
    collection = open_collection(files, header, EngineConfig())
    with files.claimed():
        header = _prepared(files, header, collection, replace=replace)
        job = _Update(files, header, collection, documents)
        for document, pages in encode_documents(vectors, store, job.missing, progress=progress):
            job.put(document, pages)
        filled = job.finish()
    new, pages = (sum(each.pages for each in some) for some in (job.missing, documents))
    return BuiltIndex(pages, len(documents), new, pages - filled)


def _prepared(
    files: IndexFiles, header: CollectionHeader, collection: Collection, *, replace: bool
) -> CollectionHeader:
    """See that the folder names the collection, and that this is there; return the header with its documents.

    Raises:
        UserError: the folder holds another index that is to stay, or the name is taken at the server.
    """
    there = _header(files, replace=replace)
    same = there is not None and there.without_documents() == header.without_documents()
    ours = there is not None and (there.url, there.collection) == (header.url, header.collection)
    if there is not None and not same and not replace:
        raise UserError(
            f"{files.root} holds an index of {there.place}, by another model or in another place: replace it "
            "with --force, or name another folder"
        )
    if not ours and header.url is not None and collection.exists():
        raise UserError(
            f"{header.place} is there, and {files.root} does not name it: choose another --collection, or "
            "remove it at the server"
        )
    if there is not None and same:
        header = header.model_copy(update={"documents": there.documents})
    # named without documents, so that vectors of another model are never taken for those of this one
    files.write_header(header)
    files.sweep(rf"files-.*|{ENCODED}")
    if not same or not collection.exists():
        collection.create()
    return header


def _header(files: IndexFiles, *, replace: bool) -> CollectionHeader | None:
    """Return the header that is there."""
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
    """One bringing up to date; documents are stored together, and named in the header afterwards."""

    def __init__(
        self,
        files: IndexFiles,
        header: CollectionHeader,
        collection: Collection,
        documents: Sequence[StoredDocument],
    ) -> None:
        self._files, self._header, self._collection = files, header, collection
        self._kept, self._removed = _sound(header, collection, documents)
        if self._removed:
            self._write_header()
            collection.remove(self._removed)
        self.missing = [each for each in documents if each.doc_id not in self._kept]
        self._pages: list[VectorPage] = []

    def put(self, document: StoredDocument, pages: Sequence[np.ndarray]) -> None:
        """Take the vectors of all pages of a document, float32 of shape (n, dim) each, n >= 0."""
        found = [
            VectorPage(PageRef(document.doc_id, number), document.digest, rounded(vectors))
            for number, vectors in enumerate(pages, 1)
            if len(vectors)
        ]
        self._kept[document.doc_id] = HeldDocument(document=document, filled=len(found))
        self._pages += found
        if sum(page.vectors.size for page in self._pages) > _NUMBERS:
            self._store()

    def finish(self) -> int:
        """Store what waits; return the number of pages with vectors."""
        self._store()
        if self.missing or self._removed:
            self._collection.finish()
        return sum(each.filled for each in self._kept.values())

    def _store(self) -> None:
        if self._pages:
            self._collection.add(self._pages)
        self._pages = []
        self._write_header()

    def _write_header(self) -> None:
        documents = tuple(self._kept[doc_id] for doc_id in sorted(self._kept))
        self._files.write_header(self._header.model_copy(update={"documents": documents}))


def _sound(
    header: CollectionHeader, collection: Collection, documents: Sequence[StoredDocument]
) -> tuple[dict[str, HeldDocument], list[str]]:
    """Return the documents that are stored as they are now, and the names of others."""
    held = {each.document.doc_id: each for each in header.documents}
    broken: set[str] = set()
    if collection.count() != header.filled:
        # pages of a build that was killed, or pages that somebody removed
        broken = {doc_id for doc_id, _ in differences(collection, header.documents)}
    now = {each.doc_id: each for each in documents}
    kept = {id_: each for id_, each in held.items() if id_ not in broken and now.get(id_) == each.document}
    return kept, sorted((held.keys() | broken) - kept.keys())
