"""Collections of headers and configurations: where they are, and whether they fit the document store."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.endpoints.http_client import read_api_key
from docagent_rl.retrieval.base import ServiceFailedError
from docagent_rl.retrieval.config import KEY, EngineConfig, SearchEngine
from docagent_rl.retrieval.engines.collection import Collection, CollectionHeader, HeldDocument, differences
from docagent_rl.retrieval.index_files import COLLECTION, IndexFiles
from docagent_rl.retrieval.vectors.index import StoredDocument, stored_documents


class CollectionIndex:
    """The index of a folder whose pages are in a collection."""

    def __init__(self, files: IndexFiles, header: CollectionHeader, collection: Collection) -> None:
        self.path, self.header, self.collection = files.root, header, collection

    @classmethod
    def open(cls, path: str | Path, config: EngineConfig | None = None, key: str = KEY) -> CollectionIndex:
        """Return the index of a folder.

        Raises:
            UserError: its header is damaged, its package is not installed, or a token is missing.
        """
        files = IndexFiles(Path(path))
        header = files.read(lambda data, found: found.parse(CollectionHeader, data))
        return cls(files, header, open_collection(files, header, config or EngineConfig(), key))

    def held(self) -> dict[str, HeldDocument]:
        """Return the records of all documents by id.

        Raises:
            UserError: there is no collection.
            InfrastructureError: the engine cannot be reached, or fails.
        """
        with asked_once(self.header):
            if not self.collection.exists():
                raise UserError(
                    f"the index {self.path} is of the collection {place(self.header)}, which is not there: "
                    "build it again with the same command"
                )
            return {each.document.doc_id: each for each in self.collection.documents()}

    def check(self, store: DocumentStore) -> list[StoredDocument]:
        """Check that the collection holds the pages of a store as they are, by counts and digests.

        Raises:
            UserError: it does not; the message names a document that differs.
            InfrastructureError: the engine cannot be reached, or fails.
        """
        held, content = self.held(), self.header.source.content
        now = {each.doc_id: each for each in stored_documents(store, content)}
        before = {doc_id: each.document for doc_id, each in held.items()}
        changed = sorted(doc_id for doc_id in before | now if before.get(doc_id) != now.get(doc_id))
        again = "run `docagent-rl index build` as before (documents that are in it are not encoded again)"
        if changed:
            raise UserError(
                f"the collection {place(self.header)} does not hold {store.path} as it is now: "
                f"{len(changed)} documents are missing, gone or changed, such as {changed[0]!r}: {again}"
            )
        filled = sum(each.filled for each in held.values())
        with asked_once(self.header):
            count = self.collection.count()
        if count != filled:
            raise UserError(
                f"the collection {place(self.header)} has {count} pages, not the {filled} of its documents: "
                f"{again}"
            )
        return list(now.values())

    def problems(self) -> list[str]:
        """Return the problem of each document whose pages are not those of its record; reads all records."""
        held = self.held()
        with asked_once(self.header):
            found = dict(differences(self.collection, held.values()))
        return [f"{doc_id}: {problem}" for doc_id, problem in sorted(found.items())]

    def info(self) -> dict[str, object]:
        """Return counts, the place and the model, by their names for people."""
        held, source = self.held(), self.header.source
        with asked_once(self.header):
            facts = self.collection.facts()
        pages = sum(each.document.pages for each in held.values())
        return {
            "kind": self.header.kind.value,
            "engine": self.header.engine.value,
            "collection": place(self.header),
            "documents": len(held),
            "pages": pages,
            "pages without vectors": pages - sum(each.filled for each in held.values()),
            "dimensions": source.dim,
            "content": source.content.value,
            **facts,
            "encoder": source.encoder,
            "spec": self.header.spec,
        }


def open_collection(
    files: IndexFiles, header: CollectionHeader, config: EngineConfig, key: str = KEY
) -> Collection:
    """Return the collection of a header, at the address of a configuration if that has one.

    Nothing is read from it yet.

    Raises:
        UserError: the engine's package is not installed, or a server or its token is not named.
    """
    url = config.url or header.url
    variable = config.token_env or header.token_env
    token = None if variable is None else read_api_key(variable, f"{key}.engine.token_env")
    folder = files.root.absolute() / COLLECTION
    with _installed(header.engine):
        if header.engine is SearchEngine.LANCEDB:
            from docagent_rl.retrieval.engines.lance import LanceCollection

            return LanceCollection(url or str(folder), header.collection, header.source)
        from docagent_rl.retrieval.engines import qdrant

        if url is None:
            raise UserError("a collection of qdrant is at a server: name it by --url (http://host:6333)")
        client = qdrant.connect(url, token=token, timeout_s=config.timeout_s)
        return qdrant.QdrantCollection(client, header.collection, header.source)


def place(header: CollectionHeader) -> str:
    """Return the place of a collection, for messages."""
    return f"{header.collection!r} of {header.engine.value} at {header.url or 'its folder'}"


@contextmanager
def asked_once(header: CollectionHeader) -> Generator[None]:
    """Turn failures of an engine that is not asked again into errors for people.

    Raises:
        InfrastructureError: it cannot be reached, or fails.
    """
    try:
        yield
    except ServiceFailedError as error:
        raise InfrastructureError(f"the collection {place(header)}: {error}") from error


@contextmanager
def _installed(engine: SearchEngine) -> Generator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise UserError(
            f"an index of {engine.value} needs the package {error.name}: "
            f"pip install 'docagent-rl[{engine.value}]'"
        ) from error
