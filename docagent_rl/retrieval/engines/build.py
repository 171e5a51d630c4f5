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
        _prepare(files, header, collection, replace=replace)
        job = _Update(collection, documents)
        for document, pages in encode_documents(vectors, store, job.missing, progress=progress):
            job.put(document, pages)
        job.finish()
    new = sum(each.pages for each in job.missing)
    return BuiltIndex(sum(each.pages for each in documents), len(documents), new, job.blank)


def _prepare(files: IndexFiles, header: CollectionHeader, collection: Collection, *, replace: bool) -> None:
    """See that the folder names the collection, and that this is there.

    Raises:
        UserError: the folder holds another index that is to stay, or the name is taken at the server.
    """
    there = _header(files, replace=replace)
    same = there is not None and there.model_copy(update={"token_env": header.token_env}) == header
    ours = there is not None and (there.url, there.collection) == (header.url, header.collection)
    if there is not None and not same and not replace:
        raise UserError(
            f"{files.root} holds an index of {there.place}, by another model or in another place: replace it "
            "with --force, or name another folder"
        )
    if ours and not same:
        # before it is named: vectors of another model are never taken for those of this one
        collection.create()
    elif not ours and header.url is not None and collection.exists():
        raise UserError(
            f"{header.place} is there, and {files.root} does not name it: choose another --collection, or "
            "remove it at the server"
        )
    files.write_header(header)
    files.sweep(rf"files-.*|{ENCODED}")
    if not ours or not collection.exists():
        collection.create()


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
    """One bringing up to date; documents are stored together, each with its record last."""

    def __init__(self, collection: Collection, documents: Sequence[StoredDocument]) -> None:
        self._collection = collection
        self._kept, self._removed = _sound(collection, documents)
        if self._removed:
            collection.remove(self._removed)
        self.missing = [each for each in documents if each.doc_id not in self._kept]
        self._pages: list[VectorPage] = []
        self._records: list[HeldDocument] = []

    def put(self, document: StoredDocument, pages: Sequence[np.ndarray]) -> None:
        """Take the vectors of all pages of a document, float32 of shape (n, dim) each, n >= 0."""
        found = [
            VectorPage(PageRef(document.doc_id, number), document.digest, rounded(vectors))
            for number, vectors in enumerate(pages, 1)
            if len(vectors)
        ]
        record = self._kept[document.doc_id] = HeldDocument(document, len(found))
        self._pages += found
        self._records.append(record)
        if sum(page.vectors.size for page in self._pages) > _NUMBERS:
            self._store()

    def finish(self) -> None:
        """Store what waits."""
        self._store()
        if self.missing or self._removed:
            self._collection.finish()

    def _store(self) -> None:
        if self._pages:
            self._collection.add(self._pages)
        if self._records:
            self._collection.record(self._records)
        self._pages, self._records = [], []

    @property
    def blank(self) -> int:
        """The number of pages without vectors."""
        return sum(each.document.pages - each.filled for each in self._kept.values())


def _sound(
    collection: Collection, documents: Sequence[StoredDocument]
) -> tuple[dict[str, HeldDocument], list[str]]:
    """Return the records of the documents that are stored as they are now, and the names of others."""
    held = {each.document.doc_id: each for each in collection.documents()}
    broken: set[str] = set()
    if collection.count() != sum(each.filled for each in held.values()):
        # pages of a build that was killed, or pages that somebody removed
        broken = {doc_id for doc_id, _ in differences(collection, held.values())}
    now = {each.doc_id: each for each in documents}
    kept = {id_: each for id_, each in held.items() if id_ not in broken and now.get(id_) == each.document}
    return kept, sorted((held.keys() | broken) - kept.keys())
