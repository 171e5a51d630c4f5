"""Indexes whose vectors are in a collection of an engine.

Such an index is a folder with a header, which records where the collection is, what made the
vectors, the documents that are completely stored, and what the build still has to do. A document is
added to the header after all its pages are stored, and documents that are not in the header are
encoded again, so a build that was killed can resume.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.documents.references import unknown_document
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.http_client import read_api_key
from docagent_rl.retrieval.base import Hit, Pages, StaleIndexError, best_hits
from docagent_rl.retrieval.config import KEY, EngineConfig, SearchEngine
from docagent_rl.retrieval.engines.contents import CollectionHeader, Phase
from docagent_rl.retrieval.index_files import COLLECTION, IndexFiles
from docagent_rl.retrieval.vectors.bank import rounded

if TYPE_CHECKING:
    from docagent_rl.retrieval.engines.lance import LanceCollection
    from docagent_rl.retrieval.engines.qdrant import QdrantCollection

    Collection = LanceCollection | QdrantCollection

_UNFINISHED = "its build is still running or was killed"


class CollectionIndex:
    """An index whose vectors are in a collection of an engine.

    Scores are those of an embedded index except for rounding. A search over all documents may miss
    some of the best pages, since it only scores `candidates` pages. While a collection changes,
    searches find the pages that are stored at that time.
    """

    def __init__(
        self, header: CollectionHeader, collection: Collection, path: Path, candidates: int
    ) -> None:
        self.path = path
        self.header = header
        self.collection = collection
        self._candidates = candidates

    @classmethod
    def open(
        cls,
        path: str | Path,
        config: EngineConfig | None = None,
        key: str = KEY,
        *,
        candidates: int = 200,
    ) -> CollectionIndex:
        """Open the index in a folder.

        Raises:
            UserError: Its header is damaged, the engine's package is not installed, or a token is
                missing.
        """
        files = IndexFiles(Path(path))
        header = files.read(lambda data, found: found.parse(CollectionHeader, data))
        collection = open_collection(files, header, config or EngineConfig(), key)
        return cls(header, collection, files.root, candidates)

    def check(self, store: DocumentStore) -> None:
        """Check by digests and numbers that the collection matches the pages of a store.

        Raises:
            StaleIndexError: It does not; the message names a document that differs, or says that
                the build is unfinished.
            UserError: The collection does not exist.
        """
        if not self.collection.exists():
            raise UserError(
                f"the index {self.path} is of {self.header.place}, which does not exist: build it "
                "again with the same command"
            )
        changed = self.header.changed(store)
        count = self.collection.count()
        whole = count == self.header.num_filled
        finished = self.header.phase is Phase.FINISHED
        if not changed and whole and finished:
            return
        problem = _UNFINISHED
        if not whole:
            problem = f"it has {count} pages, not the {self.header.num_filled} of its documents"
        if changed:
            problem = (
                f"{len(changed)} documents are missing, gone or changed, such as {changed[0]!r}"
            )
        raise StaleIndexError(
            f"{self.header.place} does not match {store.path} as it is now: {problem}: run "
            "`docagent-rl index build` as before (documents that are in it are not encoded again)"
        )

    def problems(self) -> list[str]:
        """Return a message for each document with missing or changed pages, and for an unfinished
        build; all pages are checked.
        """
        found = sorted(broken_documents(self.collection, self.header))
        broken = [
            f"{doc_id}: its pages in the collection differ from those that were stored"
            for doc_id in found
        ]
        return broken + [_UNFINISHED] * (self.header.phase is not Phase.FINISHED)

    def info(self) -> dict[str, object]:
        """Return counts, the place and the model, by readable names."""
        header = self.header
        return {**header.info(header.num_pages - header.num_filled), "collection": header.place}

    def rank(
        self, queries: Sequence[np.ndarray], *, doc_id: str | None, top_k: int, exclude: Pages
    ) -> list[list[Hit]]:
        """Return the best pages for each query; see `Retriever.search`.

        Raises:
            ServiceFailedError: The engine cannot be reached or fails; a retry may succeed.
        """
        known = [document.doc_id for document in self.header.documents]
        if doc_id is not None and doc_id not in known:
            raise unknown_document(doc_id, known, "the index")
        found = (
            self.collection.search(
                rounded(query),
                doc_id=doc_id,
                top_k=top_k,
                exclude=exclude,
                candidates=self._candidates,
            )
            for query in queries
        )
        return [best_hits(hits, top_k) for hits in found]


def open_collection(
    files: IndexFiles, header: CollectionHeader, config: EngineConfig, key: str = KEY
) -> Collection:
    """Return the collection of a header, at the configuration's address if it has one.

    Nothing is read from it yet.

    Raises:
        UserError: The engine's package is not installed, or the address or token of its server is
            missing.
    """
    url = config.url or header.url
    variable = config.token_env or header.token_env
    token = None if variable is None else read_api_key(variable, f"{key}.engine.token_env")
    try:
        if header.engine is SearchEngine.LANCEDB:
            from docagent_rl.retrieval.engines.lance import LanceCollection

            return LanceCollection(url or str(files.root.absolute() / COLLECTION), header)
        from docagent_rl.retrieval.engines import qdrant
    except ModuleNotFoundError as error:
        raise UserError(
            f"an index of {header.engine.value} needs the package {error.name}: "
            f"pip install 'docagent-rl[{header.engine.value}]'"
        ) from error
    if url is None:
        raise UserError("a qdrant collection is on a server: name it with --url (http://host:6333)")
    return qdrant.QdrantCollection(
        qdrant.connect_qdrant(url, token=token, timeout_s=config.timeout_s), header
    )


def broken_documents(collection: Collection, header: CollectionHeader) -> set[str]:
    """Return the documents whose stored pages differ from the header, including unknown ones."""
    stored = Counter((ref.doc_id, digest) for ref, digest in collection.pages())
    expected = Counter(
        {(each.doc_id, each.digest): header.filled[each.doc_id] for each in header.documents}
    )
    return {page[0] for page in stored | expected if stored[page] != expected[page]}
