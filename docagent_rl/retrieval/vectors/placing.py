"""Where the documents of an index are among its shards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from docagent_rl.retrieval.vectors.header import Placed, StoredDocument
from docagent_rl.retrieval.vectors.shards import Shard


def in_order(shards: Sequence[Shard]) -> list[Shard]:
    """Shards by what is in them and not by when they were made: the same whatever was interrupted."""
    return sorted(shards, key=lambda shard: (shard.header.documents[0].doc_id, shard.name))


def placed_documents(wanted: Sequence[StoredDocument], shards: Sequence[Shard]) -> tuple[Placed, ...]:
    """Each document and the first shard that has it as it is wanted."""
    asked = {document.doc_id: document for document in wanted}
    places: dict[str, dict[str, int]] = {}
    for position, shard in enumerate(shards):
        first = 0
        for document in shard.header.documents:
            if asked.get(document.doc_id) == document:
                places.setdefault(document.doc_id, {"shard": position, "first": first})
            first += document.pages
    return tuple(Placed(**document.model_dump(), **places[document.doc_id]) for document in wanted)


def rows_of_shards(documents: Sequence[Placed], shards: Sequence[Shard]) -> list[np.ndarray]:
    """The row of the index of each page of each shard, int64; -1 for pages that are in it no more."""
    rows = [np.full(shard.header.pages, -1, np.int64) for shard in shards]
    row = 0
    for document in documents:
        end = row + document.pages
        rows[document.shard][document.first : document.first + document.pages] = np.arange(row, end)
        row = end
    return rows
