"""Stands in for a retriever where nothing is searched, so that no index is needed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval import Hit


class Unasked:
    """A retriever that nobody asks.

    Args:
        settings: whatever a configuration hands to a class of one's own.
    """

    def __init__(self, **settings: object) -> None:
        del settings

    def search(
        self,
        queries: Sequence[str],
        *,
        doc_id: str | None = None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[list[Hit]]:
        """See `Retriever.search`.

        Raises:
            UserError: always.
        """
        raise UserError("this agent searches, and its configuration has no retriever")
