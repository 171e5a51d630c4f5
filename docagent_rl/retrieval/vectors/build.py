"""Building of an index of vectors, and bringing one up to date."""

import hashlib
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.index_files import ENCODED, IndexFiles
from docagent_rl.retrieval.vectors.bank import Bank, make_bank, pack_bank, unpack_bank, write_banks
from docagent_rl.retrieval.vectors.binary import write_signs
from docagent_rl.retrieval.vectors.encoding import PageVectors, encode_documents
from docagent_rl.retrieval.vectors.index import (
    StoredDocument,
    VectorHeader,
    VectorIndex,
    VectorKind,
)
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm, pooled

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
    changed: bool = True
    """The index is another one than before, if only for documents that are gone."""


def build_index(
    store: DocumentStore,
    vectors: PageVectors,
    path: str | Path,
    *,
    kind: VectorKind,
    form: VectorForm | None = None,
    replace: bool = False,
) -> BuiltIndex:
    """Encode the pages of a store, or those that are new in it since the index in a folder was
    built.

    A build that was killed goes on from the documents that it encoded; one beside another waits for
    it. The files are the same ones, byte by byte, wherever and by how many workers pages were
    encoded, as far as the encoder gives the same vectors for the same batch. An index that was
    brought up to date had other batches than one built at once, and may differ from it in the last
    bits. `replace`: another or a damaged index in the folder gives way.

    Raises:
        UserError: the folder holds something else, another index, or a damaged one.
        InfrastructureError: a node or the encoder fails.
    """
    form = form or VectorForm()
    header = VectorHeader.of(store, vectors.facts(), kind, form=form)
    files = IndexFiles(Path(path))
    with files.claimed():
        job = _Build(files, header, _previous(files, header, replace=replace))
        missing = [document for document in header.documents if job.bank(document) is None]
        for document, pages in encode_documents(vectors, store, missing):
            job.keep(
                document, make_bank(pooled(pages, form.pooled), header.dim, form.precision.stored)
            )
        blank = job.publish()
    new = sum(document.pages for document in missing)
    return BuiltIndex(header.num_pages, len(header.documents), new, blank)


def _previous(files: IndexFiles, header: VectorHeader, *, replace: bool) -> VectorIndex | None:
    """Return the index that is there, if it is one of the same vectors."""
    if not files.header.is_file():
        return None
    try:
        index = VectorIndex.open(files.root)
    except UserError:
        if replace:
            return None
        raise
    if index.header.source == header.source:
        return index
    if replace:
        return None
    raise UserError(
        f"{files.root} holds an index of other vectors ({_difference(index.header, header)}): "
        "replace it "
        "with --force, or name another folder"
    )


def _difference(there: VectorHeader, wanted: VectorHeader) -> str:
    """Say in what the vectors of an index differ from those that are wanted."""
    before = _origin(there)
    after = _origin(wanted)
    parts = [
        f"{name} {value}, not {after[name]}"
        for name, value in before.items()
        if value != after[name]
    ]
    return "; ".join(parts) or "another version of its model, or other settings of it"


def _origin(header: VectorHeader) -> dict[str, object]:
    """Return the origin of vectors by names for people."""
    made = {
        "model": header.spec.get("model"),
        "content": header.content.value,
        "dimensions": header.dim,
    }
    return {**made, **header.form.model_dump(mode="json")}


class _Build:
    """The next version of an index, of vectors that are in the last one or in files of their
    own.
    """

    def __init__(
        self, files: IndexFiles, header: VectorHeader, previous: VectorIndex | None
    ) -> None:
        self._files = files
        self._header = header
        self._previous = previous
        held = previous.header.documents if previous else ()
        self._held = {document.doc_id: document for document in held}

    def bank(self, document: StoredDocument) -> Bank | None:
        """Return the vectors of a document that were encoded before."""
        if self._previous is not None and self._held.get(document.doc_id) == document:
            return self._previous.bank.span(*self._previous.rows.span(document.doc_id))
        try:
            return unpack_bank(self._place(document))
        except _UNREADABLE:
            return None

    def keep(self, document: StoredDocument, bank: Bank) -> None:
        """Write the vectors of a document to a file, from which a build that is killed goes on."""
        atomic_write(self._place(document), pack_bank(bank))

    def publish(self) -> int:
        """Put the new version in the place of the last one, unless nothing has changed.

        Returns the number of pages without vectors.
        """
        blank = sum(int((np.diff(bank.offsets) == 0).sum()) for bank in self._banks())
        if self._previous is not None and self._previous.header.unsaved() == self._header:
            self._files.sweep(rf"{ENCODED}|\..*\.tmp")
        else:
            self._files.publish(self._write, self._header)
        return blank

    def _write(self, folder: Path) -> None:
        write_banks(folder, self._banks())
        if self._header.form.precision is Precision.BINARY:
            write_signs(folder)

    def _banks(self) -> Iterator[Bank]:
        for document in self._header.documents:
            bank = self.bank(document)
            assert bank is not None
            yield bank

    def _place(self, document: StoredDocument) -> Path:
        name = f"{self._header.source} {document.model_dump_json()}"
        return self._files.root / ENCODED / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npz"
