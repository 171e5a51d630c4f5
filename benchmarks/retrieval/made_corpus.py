"""Make a corpus of documents with random text, and its BM25 index."""

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
"""Invented words. The first are drawn most often, so that frequencies fall as in a language."""
_LINES, _WORDS_A_LINE = 20, 10


def make_corpus(folder: Path, documents: int, pages: int) -> tuple[DocumentStore, Path]:
    """Write the documents as PDFs, ingest and index them.

    Args:
        folder: an empty folder.
        documents: the number of documents.
        pages: the number of pages of each.

    Returns:
        the store, and the folder of the index.
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
