"""What is in an index of vectors, for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from docagent_rl.retrieval.vectors.bank import Bank
from docagent_rl.retrieval.vectors.candidates import Candidates
from docagent_rl.retrieval.vectors.header import VectorHeader


def index_info(
    path: Path, header: VectorHeader, banks: Sequence[Bank], candidates: Candidates | None
) -> dict[str, object]:
    """Counts, sizes and the model, by what they are called."""
    source = header.source
    filled = sum(
        int(np.count_nonzero(np.diff(banks[d.shard].offsets[d.first : d.first + d.pages + 1])))
        for d in header.documents
    )
    pages = sum(document.pages for document in header.documents)
    return {
        "kind": header.kind.value,
        "documents": len(header.documents),
        "pages": pages,
        "pages without vectors": pages - filled,
        "vectors": sum(len(bank.vectors) for bank in banks),
        "dimensions": source.dim,
        "precision": source.settings.precision.value,
        "pool factor": source.settings.pool_factor,
        "content": source.content.value,
        "shards": len(banks),
        "clusters": len(candidates.clusters) if candidates else 0,
        "bytes": sum(file.stat().st_size for file in path.rglob("*") if file.is_file()),
        "encoder": source.encoder,
        "spec": header.spec,
    }
