"""A corpus of made pages of text, with a BM25 index."""

from __future__ import annotations

import random
from pathlib import Path

from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.bm25 import BM25Retriever

WORDS = tuple(
    f"{first}{second}{third}"
    for first in "bdfgklmnprst"
    for second in "aeiou"
    for third in "mnrlxtsk"
)
"""Made words; the first are frequent, as those of a language are."""
_LINES, _WORDS_A_LINE = 20, 10


def make_corpus(folder: Path, documents: int, pages: int) -> tuple[DocumentStore, Path]:
    """Write, ingest and index it.

    Args:
        folder: an empty one.
        documents: their number.
        pages: of each.
    """
    drawn = random.Random(3)
    weights = [1.0 / (rank + 5) for rank in range(len(WORDS))]
    (folder / "inbox").mkdir()
    for number in range(documents):
        canvas = Canvas(
            str(folder / "inbox" / f"doc{number:04}.pdf"), pagesize=(300, 300), invariant=True
        )
        for _ in range(pages):
            for line in range(_LINES):
                canvas.drawString(
                    5, 285 - 14 * line, " ".join(drawn.choices(WORDS, weights, k=_WORDS_A_LINE))
                )
            canvas.showPage()
        canvas.save()
    ingest(folder / "inbox", folder / "store", settings=RenderSettings(dpi=10), workers=2)
    store = DocumentStore(folder / "store")
    BM25Retriever.build(store).save(folder / "index")
    return store, folder / "index"
