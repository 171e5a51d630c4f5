"""Indexes of any kind: what they are, and whether every file is as it was written."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents.audit import Audit, Damage
from docagent_rl.retrieval.bm25 import BM25Header, BM25Retriever
from docagent_rl.retrieval.index_files import IndexFiles, IndexHeader, index_kind
from docagent_rl.retrieval.vectors.header import Kind, VectorHeader
from docagent_rl.retrieval.vectors.index import VectorIndex


def audit_index(root: Path) -> Audit:
    """Read every file of an index of any kind.

    Raises:
        UserError: the folder is not an index.
    """
    files = IndexFiles(root.absolute())
    try:
        index = open_index(files.root)
    except UserError as error:
        if not files.header.is_file():
            raise
        return Audit("an index that cannot be used", _damages(files, error))
    if isinstance(index, BM25Retriever):
        return Audit(f"an index of {index.num_pages} pages")
    return Audit(f"an index of vectors of {index.num_pages} pages ({index.header.kind.value})")


def open_index(root: Path) -> BM25Retriever | VectorIndex:
    """Return an index of any kind.

    Raises:
        UserError: there is none, or it is damaged.
    """
    return VectorIndex.open(root) if _is_of_vectors(root) else BM25Retriever.load(root)


def describe(root: Path) -> dict[str, object]:
    """Return what an index of any kind holds, for people.

    Raises:
        UserError: there is none, or it is damaged.
    """
    index = open_index(root)
    if isinstance(index, VectorIndex):
        return index.info()
    return {"kind": "bm25", "pages": index.num_pages, **asdict(index.settings)}


def _is_of_vectors(root: Path) -> bool:
    return index_kind(root) in tuple(Kind)


def _damages(files: IndexFiles, error: UserError) -> list[Damage]:
    """Return all damaged files, where opening stops at the first."""
    model: type[IndexHeader] = VectorHeader if _is_of_vectors(files.root) else BM25Header
    try:
        checksums = files.parse(model, files.header.read_bytes()).files
    except UserError as broken:
        return [Damage(files.header, str(broken))]
    found = files.damages(checksums) or {files.folder(checksums): str(error)}
    return [Damage(path, problem) for path, problem in found.items()]
