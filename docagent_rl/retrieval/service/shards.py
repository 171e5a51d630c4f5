"""A corpus in parts: which documents belong to which, and one ranking of those of all parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.base import Hit, Retriever
from docagent_rl.retrieval.config import RetrieverConfig


@runtime_checkable
class Divisible(Protocol):
    """A retriever whose search over all documents can be done in parts."""

    def part(self, number: int, of: int) -> Retriever:
        """One that searches a part of the documents, where it is told no document.

        Its scores are those of the whole: of BM25, the word statistics are.

        Args:
            number: of the part, from 0 (`PageRows.parts`).
            of: parts.
        """
        ...


def check_parts(retriever: Retriever, config: RetrieverConfig, key: str) -> None:
    """See that a retriever can be split.

    Raises:
        UserError: it cannot, and there are to be several parts.
    """
    if config.service.shards > 1 and not isinstance(retriever, Divisible):
        raise UserError(
            f"{key}.service.shards={config.service.shards}: a retriever of kind {config.kind} cannot be "
            f"split, for its scores in one part say nothing of those in others: set {key}.service.shards=1 "
            f"and raise {key}.service.replicas"
        )


def merged(answers: Sequence[Sequence[Sequence[Hit]]], top_k: int) -> list[list[Hit]]:
    """The best of all parts for each query.

    Args:
        answers: of each part, to the same queries.
        top_k: hits of a query at most.

    Returns:
        Best first, equal scores in the order of `PageRef`, as one retriever over all of them ranks.
    """
    return [
        sorted((hit for part in parts for hit in part), key=lambda hit: (-hit.score, hit.ref))[:top_k]
        for parts in zip(*answers, strict=True)
    ]
