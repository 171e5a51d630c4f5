"""Building of an index of vectors, and bringing one up to date."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.index_files import ENCODED, IndexFiles, index_engine, index_kind
from docagent_rl.retrieval.vectors.bank import Bank, make_bank, pack_bank, unpack_bank, write_banks
from docagent_rl.retrieval.vectors.encoding import (
    EncoderFactory,
    EncoderFacts,
    LocalVectors,
    PageVectors,
    encode_documents,
)
from docagent_rl.retrieval.vectors.index import (
    Kind,
    Source,
    StoredDocument,
    VectorHeader,
    VectorIndex,
    stored_documents,
)

_UNREADABLE = (OSError, ValueError, KeyError, zipfile.BadZipFile)


@dataclass(frozen=True, slots=True)
class BuiltIndex:
    """An index that was built."""

    pages: int
    documents: int
    new: int
    """Pages that were read for it; 0: it was there."""
    blank: int = 0
    """Pages that no search can find, since they have no text."""


def build_index(
    store: DocumentStore,
    encoder: EncoderFactory | PageVectors,
    path: str | Path,
    *,
    kind: Kind,
    progress: bool = False,
    replace: bool = False,
) -> BuiltIndex:
    """Encode the pages of a store, or those that are new in it since the index was built.

    A build that was killed goes on from the documents that it encoded; one beside another waits for it. The
    files are the same ones, byte by byte, wherever and by how many workers pages were encoded, as far as the
    encoder gives the same vectors for the same batch. An index that was brought up to date had other batches
    than one built at once, and may differ from it in the last bits.

    Args:
        store: the documents.
        encoder: makes the encoder in this process; or a `RayVectors`, for a cluster.
        path: of the folder.
        kind: of the vectors.
        progress: show a bar on standard error.
        replace: another or a damaged index in the folder gives way.

    Raises:
        UserError: the folder holds something else, another index, or a damaged one.
        InfrastructureError: a node or the encoder fails.
    """
    vectors = encoder if isinstance(encoder, PageVectors) else LocalVectors(encoder)
    facts = vectors.facts()
    source = source_of(facts, kind)
    documents = documents_of(store, source)
    header = VectorHeader(kind=kind, source=source, spec=dict(facts.spec), documents=documents)
    files = IndexFiles(Path(path))
    with files.claimed():
        job = _Build(files, header, _previous(files, source, replace=replace))
        new = job.encode(store, vectors, progress)
        blank = job.publish()
    return BuiltIndex(sum(document.pages for document in documents), len(documents), new, blank)


def source_of(facts: EncoderFacts, kind: Kind) -> Source:
    """Return the origin of the vectors that an encoder makes."""
    return Source(kind=kind, encoder=facts.fingerprint, content=facts.content, dim=facts.dim)


def documents_of(store: DocumentStore, source: Source) -> tuple[StoredDocument, ...]:
    """Return the documents of a store as they are now.

    Raises:
        UserError: there are none.
    """
    documents = tuple(stored_documents(store, source.content))
    if not documents:
        raise UserError(f"{store.path} holds no documents: ingest some first")
    return documents


def changes(found: Mapping[str, object], asked: Mapping[str, object]) -> str:
    """Return what differs between two descriptions of indexes, for a message."""

    def short(value: object) -> str:
        return str(value)[:12] if isinstance(value, str) else str(value)

    names = [name for name in found if found[name] != asked[name]]
    return "; ".join(f"{name}: {short(found[name])}, not {short(asked[name])}" for name in names)


def _previous(files: IndexFiles, source: Source, *, replace: bool) -> VectorIndex | None:
    """Return the index that is there, if it is one of the same vectors.

    Raises:
        UserError: it is another one, or damaged, and is not to be replaced.
    """
    if not files.header.is_file():
        return None
    again = "replace it with --force, or name another folder"
    there = index_kind(files.root)
    engine = index_engine(files.root)
    if (there and there not in tuple(Kind)) or engine is not SearchEngine.EMBEDDED:
        if replace:
            return None
        raise UserError(
            f"{files.root} holds an index of another kind than {source.kind.value}, or of the engine "
            f"{engine.value}: {again}"
        )
    try:
        index = VectorIndex.open(files.root)
    except UserError:
        if replace:
            return None
        raise
    if index.header.source == source:
        return index
    if replace:
        return None
    changed = changes(index.header.source.model_dump(mode="json"), source.model_dump(mode="json"))
    raise UserError(f"{files.root} holds an index of other vectors ({changed}): {again}")


class _Build:
    """The next version of an index, of vectors that are in the last one or in files of their own."""

    def __init__(self, files: IndexFiles, header: VectorHeader, previous: VectorIndex | None) -> None:
        self._files, self._header, self._previous = files, header, previous
        held = previous.header.documents if previous else ()
        self._held = {document.doc_id: document for document in held}

    def encode(self, store: DocumentStore, vectors: PageVectors, progress: bool) -> int:
        """Encode the documents whose vectors are nowhere; return the number of their pages."""
        missing = [document for document in self._header.documents if self._bank(document) is None]
        pages = sum(document.pages for document in missing)
        shown = track(
            encode_documents(vectors, store, missing),
            "Encoding pages",
            total=pages,
            console=Console(stderr=True),
            disable=not progress,
        )
        found = iter(shown)
        for document in missing:
            bank = make_bank(list(islice(found, document.pages)), self._header.source.dim)
            atomic_write(self._place(document), pack_bank(bank))
        next(found, None)  # which ends the bar
        return pages

    def publish(self) -> int:
        """Put the new version in the place of the last one, unless nothing has changed.

        Returns the number of pages without vectors.
        """
        blank = sum(int((np.diff(bank.offsets) == 0).sum()) for bank in self._banks())
        if self._previous is not None and self._previous.header.unsaved() == self._header:
            self._files.sweep(rf"{ENCODED}|\..*\.tmp")
        else:
            self._files.publish(lambda folder: write_banks(folder, self._banks()), self._header)
        return blank

    def _banks(self) -> Iterator[Bank]:
        for document in self._header.documents:
            bank = self._bank(document)
            assert bank is not None
            yield bank

    def _bank(self, document: StoredDocument) -> Bank | None:
        """Return the vectors of a document that were encoded before."""
        if self._previous is not None and self._held.get(document.doc_id) == document:
            return self._previous.bank.span(*self._previous.rows.span(document.doc_id))
        try:
            return unpack_bank(self._place(document))
        except _UNREADABLE:
            return None

    def _place(self, document: StoredDocument) -> Path:
        name = self._header.source.model_dump_json() + document.model_dump_json()
        return self._files.root / ENCODED / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npz"
