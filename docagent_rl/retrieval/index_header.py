"""What an index says of itself, and whether its arrays agree."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.sealed import is_sealed
from docagent_rl.documents.objects import SHA256_PATTERN
from docagent_rl.retrieval.index_files import IndexFiles
from docagent_rl.retrieval.postings import are_sorted
from docagent_rl.retrieval.tokens import Stemmer

if TYPE_CHECKING:
    import bm25s

Sha256 = Annotated[str, Field(pattern=f"^{SHA256_PATTERN}$")]
Checksum = Annotated[Sha256 | None, Field(exclude=True, repr=False)]
"""Of the file (`docagent_rl.base.sealed`); None in files of earlier versions, which are read as they are."""


@dataclass(frozen=True, slots=True)
class BM25Settings:
    """Settings of a BM25 index.

    Raises:
        UserError: A value is out of its range.
    """

    k1: float = 1.5
    """How slowly repetitions of a word saturate, from 0."""
    b: float = 0.75
    """How much long pages are discounted, 0 to 1."""
    stemmer: Stemmer = Stemmer.NONE
    classic: bool = False
    """Scores are multiplied by k1 + 1, as in Robertson's formula."""

    def __post_init__(self) -> None:
        if not 0 <= self.k1 < float("inf"):
            raise UserError(f"k1={self.k1}: expected a number from 0")
        if not 0 <= self.b <= 1:
            raise UserError(f"b={self.b}: expected a number from 0 to 1")


class Header(BaseModel):
    """What was indexed, and in the file: where the arrays of bm25s are."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[3] = 3
    kind: Literal["bm25"] = "bm25"
    settings: BM25Settings
    fingerprint: str
    """Of the texts of the store (`DocumentStore.fingerprint`)."""
    doc_ids: tuple[str, ...]
    """Sorted; the index has one row a page, in the order of `PageRef`."""
    num_pages: tuple[Annotated[int, Field(ge=1)], ...]
    """Of each document."""
    files: dict[str, Sha256] = Field(default_factory=dict)
    """SHA-256 of each file of bm25s by name; none in memory."""
    checksum: Checksum = None

    @model_validator(mode="after")
    def _consistent(self) -> Header:
        if len(self.doc_ids) != len(self.num_pages):
            raise ValueError("doc_ids and num_pages differ in length")
        if any(not re.fullmatch(r"[\w.-]+", name) or name.startswith(".") for name in self.files):
            raise ValueError("files holds what is no file name")
        return self


def read_header(data: bytes, files: IndexFiles) -> Header:
    """The header of an index.

    Args:
        data: what its file holds.
        files: where it is, for the message.

    Raises:
        UserError: It is damaged or of another version.
    """
    try:
        if not is_sealed(data):
            raise ValueError("it has no checksum")
        return Header.model_validate_json(data)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(str(part) for part in problem["loc"]) or "file"
        raise damaged(files.header, f"{field}: {problem['msg']}", files) from error
    except ValueError as error:
        raise damaged(files.header, str(error), files) from error


def check_arrays(index: bm25s.BM25, k1: float, b: float, rows: int) -> None:
    """Check that the arrays of an index fit each other and its header.

    Raises:
        ValueError: They do not.
    """
    # an index that is made and not yet filled has none; this one was read from files
    scores = cast("Mapping[str, np.ndarray]", index.scores)
    data, indices, starts = (scores[name] for name in ("data", "indices", "indptr"))
    tokens = len(starts) - 1
    if not (data.ndim == indices.ndim == starts.ndim == 1 and len(data) == len(indices) and tokens >= 0):
        raise ValueError("its arrays are not of one index")
    if data.dtype.kind != "f" or {indices.dtype.kind, starts.dtype.kind} != {"i"}:
        raise ValueError("its arrays hold other kinds of numbers")
    if starts[0] != 0 or starts[-1] != len(data) or (np.diff(starts) < 0).any():
        raise ValueError("its tokens do not share out its scores")
    if len(indices) and not 0 <= indices.min() <= indices.max() < rows:
        raise ValueError("it has scores of pages that it does not list")
    if not (np.isfinite(data).all() and (data >= 0).all()):
        raise ValueError("it has scores that no BM25 gives")
    if not are_sorted(scores):
        raise ValueError("its pages are not in order")
    known = (index.k1, index.b, index.method, index.idf_method, scores["num_docs"])
    if known != (k1, b, "lucene", "lucene", rows):
        raise ValueError("its files are not of one index")
    # bm25s has an id for the empty token, which no text holds, and no scores
    ids = [token for word, token in index.vocab_dict.items() if word]
    if not all(type(token) is int and 0 <= token < tokens for token in ids):
        raise ValueError("its vocabulary is not that of its arrays")


def damaged(path: Path, problem: str, files: IndexFiles) -> UserError:
    """The error for a file of an index."""
    return UserError(
        f"{path}: damaged, or made by another version ({problem}): rebuild the index with "
        f"`docagent-rl index build --store STORE --out {files.root} --force`"
    )
