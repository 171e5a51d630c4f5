"""Building and updating an embedded index of vectors."""

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
    """The result of building or updating an index."""

    pages: int
    documents: int
    new: int
    """Number of pages that were read for it; 0 if it matched already."""
    blank: int = 0
    """Number of pages that no search can find, since they have no text."""
    changed: bool = True
    """True if the index has changed, even if only by the removal of documents."""


def build_index(
    store: DocumentStore,
    vectors: PageVectors,
    path: str | Path,
    *,
    kind: VectorKind,
    form: VectorForm | None = None,
    replace: bool = False,
) -> BuiltIndex:
    """Build an index of the pages of a store, or update the index in a folder with new pages.

    A build that was killed resumes with the documents that are not encoded yet; concurrent builds
    wait for each other. The files are the same, byte by byte, wherever and by however many workers
    pages are encoded, provided that the encoder returns the same vectors for the same batch. An
    updated index had other batches than one that is built at once, and may differ from it in the
    last bits. `replace` replaces another or a damaged index in the folder.

    Raises:
        UserError: The folder contains something else, another index, or a damaged one.
        InfrastructureError: A node or the encoder fails.
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
    """Return the index in the folder, if its vectors have the same origin."""
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
        f"{files.root} contains an index of other vectors ({_difference(index.header, header)}): "
        "replace it with --force, or name another folder"
    )


def _difference(there: VectorHeader, wanted: VectorHeader) -> str:
    """Describe how the vectors of an index differ from the wanted ones."""
    before = _origin(there)
    after = _origin(wanted)
    parts = [
        f"{name} {value}, not {after[name]}"
        for name, value in before.items()
        if value != after[name]
    ]
    return "; ".join(parts) or "another version of its model, or other settings of it"


def _origin(header: VectorHeader) -> dict[str, object]:
    """Return what made the vectors, by readable names."""
    made = {
        "model": header.spec.get("model"),
        "content": header.content.value,
        "dimensions": header.dim,
    }
    return {**made, **header.form.model_dump(mode="json")}


class _Build:
    """The next version of an index, from the vectors in the last one and newly encoded files."""

    def __init__(
        self, files: IndexFiles, header: VectorHeader, previous: VectorIndex | None
    ) -> None:
        self._files = files
        self._header = header
        self._previous = previous
        documents = previous.header.documents if previous else ()
        self._known = {document.doc_id: document for document in documents}

    def bank(self, document: StoredDocument) -> Bank | None:
        """Return the vectors of a document, or None if it is not encoded yet."""
        if self._previous is not None and self._known.get(document.doc_id) == document:
            return self._previous.bank.span(*self._previous.rows.span(document.doc_id))
        try:
            return unpack_bank(self._file(document))
        except _UNREADABLE:
            return None

    def keep(self, document: StoredDocument, bank: Bank) -> None:
        """Write the vectors of a document to a file, so that a killed build can resume."""
        atomic_write(self._file(document), pack_bank(bank))

    def publish(self) -> int:
        """Replace the last version by the new one, unless nothing has changed.

        Returns:
            The number of pages without vectors.
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

    def _file(self, document: StoredDocument) -> Path:
        name = f"{self._header.source} {document.model_dump_json()}"
        return self._files.root / ENCODED / f"{hashlib.sha256(name.encode()).hexdigest()[:32]}.npz"
