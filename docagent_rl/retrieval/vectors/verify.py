"""Whether the files of an index of vectors are as they were written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.vectors.first_stage import HEADER as CANDIDATES_HEADER
from docagent_rl.retrieval.vectors.first_stage import read_candidates_header
from docagent_rl.retrieval.vectors.header import VectorHeader, stored_documents
from docagent_rl.retrieval.vectors.parts import part_damages
from docagent_rl.retrieval.vectors.sealed_headers import read_sealed, rebuild_command
from docagent_rl.retrieval.vectors.shards import HEADER as SHARD_HEADER
from docagent_rl.retrieval.vectors.shards import read_shard, shard_damages


def read_vector_header(data: bytes, files: IndexFiles) -> VectorHeader:
    """The header of an index of vectors.

    Raises:
        UserError: it is damaged or of another version.
    """
    return read_sealed(VectorHeader, data, files.header, files)


def index_damages(files: IndexFiles, header: VectorHeader) -> dict[Path, str]:
    """What is wrong, by file; every file is read to its end."""
    return dict(_damages(files, header))


def _damages(files: IndexFiles, header: VectorHeader) -> Iterator[tuple[Path, str]]:
    for name, digest in header.shards.items():
        try:
            found = shard_damages(files, read_shard(files, name, digest))
        except UserError as error:
            yield files.root / name / SHARD_HEADER, _problem(error)
        else:
            yield from found.items()
    for name, digest in header.candidates.items():
        folder = files.root / name
        try:
            listed = read_candidates_header(files, name, digest).files
        except UserError as error:
            yield folder / CANDIDATES_HEADER, _problem(error)
        else:
            yield from part_damages(folder, listed).items()


def _problem(error: UserError) -> str:
    """What a message says of a file, without the file and the remedy."""
    said = str(error)
    return said[said.find("(") + 1 : said.rfind("): rebuild")]


def check_store(path: Path, header: VectorHeader, store: DocumentStore) -> None:
    """Check that a store still holds the pages that were indexed.

    Args:
        path: of the index.
        header: of the index.
        store: the documents.

    Raises:
        UserError: it does not; the message names a document that differs.
    """
    before = {d.doc_id: (d.pages, d.digest) for d in header.documents}
    now = {d.doc_id: (d.pages, d.digest) for d in stored_documents(store, header.source.content)}
    changed = sorted(doc_id for doc_id in before.keys() | now.keys() if before.get(doc_id) != now.get(doc_id))
    if changed:
        remedy = rebuild_command(path, store.path)
        raise UserError(
            f"the index {path} does not belong to {store.path} as it is now: {len(changed)} of its "
            f"documents were added, removed or ingested again, such as {changed[0]!r}: {remedy} (pages that "
            "are in it are not encoded again)"
        )
