"""Whether every file of an index is as it was written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.documents.audit import Audit, Damage
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.index_header import Header, read_header
from docagent_rl.retrieval.vectors.header import Kind
from docagent_rl.retrieval.vectors.sealed_headers import index_kind

if TYPE_CHECKING:
    from docagent_rl.retrieval.vectors.index import VectorIndex


def audit_index(root: Path) -> Audit:
    """Read every file of an index of any kind.

    Raises:
        UserError: the folder is not an index.
    """
    files = IndexFiles(root.absolute())
    if index_kind_of(files) in tuple(Kind):
        return _audit_vectors(files)
    try:
        retriever = BM25Retriever.load(files.root)
    except UserError as error:
        if not files.header.is_file():
            raise
        return Audit("an index that cannot be used", _damages(files, error))
    return Audit(f"an index of {retriever.num_pages} pages")


def index_kind_of(files: IndexFiles) -> str:
    """The kind of an index by its header, such as `bm25` or `dense`; empty where it cannot be seen."""
    try:
        return index_kind(files.header.read_bytes())
    except OSError:
        return ""


def kind_of(root: Path) -> str:
    """The kind of the index in a folder, such as `bm25` or `dense`; empty where it cannot be seen."""
    return index_kind_of(IndexFiles(root.absolute()))


def open_index(root: Path) -> VectorIndex:
    """An index of vectors.

    Raises:
        UserError: there is none, or it is damaged.
    """
    from docagent_rl.retrieval.vectors.index import VectorIndex

    return VectorIndex.open(root)


def describe(root: Path) -> dict[str, object]:
    """What an index of any kind holds, for people.

    Raises:
        UserError: there is none, or it is damaged.
    """
    if kind_of(root) in tuple(Kind):
        return open_index(root).info()
    retriever = BM25Retriever.load(root)
    return {"kind": "bm25", "pages": retriever.num_pages, **asdict(retriever.settings)}


def _audit_vectors(files: IndexFiles) -> Audit:
    from docagent_rl.retrieval.vectors.index import VectorIndex
    from docagent_rl.retrieval.vectors.verify import index_damages, read_vector_header

    try:
        index = VectorIndex.open(files.root)
    except UserError as error:
        try:
            found: Mapping[Path, str] = index_damages(files, files.read(read_vector_header))
        except UserError as broken:
            found = {files.header: str(broken)}
        damages = [Damage(path, problem) for path, problem in found.items()]
        return Audit("an index that cannot be used", damages or [Damage(files.header, str(error))])
    return Audit(f"an index of vectors of {index.num_pages} pages ({index.header.kind.value})")


def _damages(files: IndexFiles, error: UserError) -> list[Damage]:
    """All damaged files, where loading stops at the first."""
    try:
        header: Header = files.read(read_header)
    except UserError as broken:
        return [Damage(files.header, str(broken))]
    found = files.damages(header.files)
    if not found:
        return [Damage(files.folder(header.files), str(error))]
    return [Damage(path, problem) for path, problem in found.items()]
