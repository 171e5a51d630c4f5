"""Building of a collection, and bringing one up to date."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

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
)
from docagent_rl.retrieval.engines.opening import asked_once, open_collection, place
from docagent_rl.retrieval.index_files import ENCODED, IndexFiles, index_engine
from docagent_rl.retrieval.vectors.build import BuiltIndex, changes, documents_of, source_of
from docagent_rl.retrieval.vectors.encoding import (
    EncoderFactory,
    LocalVectors,
    PageVectors,
    encode_documents,
)
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
    encoder: EncoderFactory | PageVectors,
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
    vectors = encoder if isinstance(encoder, PageVectors) else LocalVectors(encoder)
    facts = vectors.facts()
    files, source = IndexFiles(Path(path)), source_of(facts, kind)
    documents = documents_of(store, source)
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
    with files.claimed(), asked_once(header):
        _prepare(files, header, collection, replace=replace)
        job = _Update(collection, documents)
        pages = job.store(store, vectors, progress)
        collection.close()
    return BuiltIndex(sum(each.pages for each in documents), len(documents), pages, job.blank)


def _prepare(files: IndexFiles, header: CollectionHeader, collection: Collection, *, replace: bool) -> None:
    """See that the folder names the collection, and that this is there.

    Raises:
        UserError: the folder holds another index that is to stay, or the name is taken at the server.
    """
    there = _header(files, replace=replace)
    if there is not None and there.model_copy(update={"token_env": header.token_env}) == header:
        files.write_header(header)
        if not collection.exists():
            collection.create()
        return
    if there is not None and not replace:
        changed = changes(there.model_dump(mode="json"), header.model_dump(mode="json"))
        raise UserError(
            f"{files.root} holds an index of another collection ({changed}): replace it with --force, or "
            "name another folder"
        )
    ours = there is not None and (there.url, there.collection) == (header.url, header.collection)
    if ours:
        # before it is named: vectors of another model are never taken for those of this one
        collection.create()
    elif header.url is not None and collection.exists():
        raise UserError(
            f"the collection {place(header)} is there, and {files.root} does not name it: choose another "
            "--collection, or remove it at the server"
        )
    files.write_header(header)
    files.sweep(rf"files-.*|{ENCODED}")
    if not ours:
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
    """One bringing up to date."""

    def __init__(self, collection: Collection, documents: Sequence[StoredDocument]) -> None:
        self._collection, self._documents = collection, documents
        self._kept = self._sound()

    def _sound(self) -> dict[str, HeldDocument]:
        """Return the documents that are stored as they are now; others are removed."""
        held = {each.document.doc_id: each for each in self._collection.documents()}
        broken: set[str] = set()
        if self._collection.count() != sum(each.filled for each in held.values()):
            # pages of a build that was killed, or pages that somebody removed
            broken = {doc_id for doc_id, _ in differences(self._collection, held.values())}
        now = {each.doc_id: each for each in self._documents}
        kept = {
            doc_id: each
            for doc_id, each in held.items()
            if doc_id not in broken and now.get(doc_id) == each.document
        }
        self._removed = (held.keys() | broken) - kept.keys()
        if self._removed:
            self._collection.remove(sorted(self._removed))
        return kept

    def store(self, store: DocumentStore, vectors: PageVectors, progress: bool) -> int:
        """Store what is missing; return the number of pages that were encoded."""
        missing = [each for each in self._documents if each.doc_id not in self._kept]
        pages = sum(each.pages for each in missing)
        shown = track(
            encode_documents(vectors, store, missing),
            "Encoding pages",
            total=pages,
            console=Console(stderr=True),
            disable=not progress,
        )
        found, waiting = iter(shown), _Waiting(self._collection)
        for document in missing:
            made = list(islice(found, document.pages))
            self._kept[document.doc_id] = waiting.put(document, made)
        next(found, None)  # which ends the bar
        waiting.store()
        if missing or self._removed:
            self._collection.finish()
        return pages

    @property
    def blank(self) -> int:
        """The number of pages without vectors."""
        return sum(each.document.pages - each.filled for each in self._kept.values())


class _Waiting:
    """Documents that are stored together, each with its record last."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self._pages: list[VectorPage] = []
        self._records: list[HeldDocument] = []

    def put(self, document: StoredDocument, pages: Sequence[np.ndarray]) -> HeldDocument:
        """Take the vectors of all pages of a document, float32 of shape (n, dim) each, n >= 0."""
        filled = 0
        for number, vectors in enumerate(pages, 1):
            if len(vectors):
                page = VectorPage(PageRef(document.doc_id, number), document.digest, rounded(vectors))
                self._pages.append(page)
                filled += 1
        record = HeldDocument(document, filled)
        self._records.append(record)
        if sum(page.vectors.size for page in self._pages) > _NUMBERS:
            self.store()
        return record

    def store(self) -> None:
        """Store what waits."""
        if self._pages:
            self._collection.add(self._pages)
        if self._records:
            self._collection.record(self._records)
        self._pages, self._records = [], []
