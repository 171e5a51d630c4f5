"""Pages without text of their own are found by what they show."""

from __future__ import annotations

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.retrieval.bm25 import BM25Retriever
from tests.documents.scans import TEXT, draw_text, write_scan

PAGES = (TEXT, ("Snow fell in the mountains", "for eleven days in March"))


@pytest.mark.slow
def test_scans_and_page_images_are_searched(tmp_path):
    write_scan(tmp_path / "in" / "scan.pdf", PAGES)
    (tmp_path / "in" / "deck").mkdir()
    for number, lines in enumerate(PAGES, start=1):
        draw_text(lines).save(tmp_path / "in" / "deck" / f"{number}.jpg")
    ingest(tmp_path / "in", tmp_path / "without", workers=1, ocr=OcrSettings(OcrMode.NEVER))
    ingest(tmp_path / "in", tmp_path / "store", workers=1)
    retriever = BM25Retriever.build(DocumentStore(tmp_path / "store"))
    snow, revenue = retriever.search(["snow in the mountains", "revenue in million"], top_k=2)
    assert {str(hit.ref) for hit in snow} == {"deck#2", "scan#2"}
    assert {str(hit.ref) for hit in revenue} == {"deck#1", "scan#1"}
    assert all(page.text() == "" for page in map(DocumentStore(tmp_path / "without").page, (snow[0].ref,)))
