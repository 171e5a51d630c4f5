"""Small stores to damage."""

from __future__ import annotations

from pathlib import Path

from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.ingestion import ingest

SETTINGS = RenderSettings(dpi=20)
TEXTS = {
    "animals": ["the cat sat on the mat", "a dog and a cat and a cat", "", "birds sing"],
    "b.plants": ["trees grow", "the cat likes the catnip plant", "roses and tulips grow grow grow"],
    "numbers": ["table 3 lists 42 items", "table 4 lists 7 items", "birds sing"],
}
OTHER_TEXTS = {"animals": ["a bird", "the cat", "cat", "mat"], "metals": ["iron and tin", "the gold"]}


def make_inbox(folder: Path, texts: dict[str, list[str]]) -> Path:
    """PDFs with bookmarks, and a document of two page images."""
    folder.mkdir(parents=True)
    for doc_id, pages in texts.items():
        canvas = Canvas(str(folder / f"{doc_id}.pdf"), pagesize=(200, 100), invariant=True)
        for number, text in enumerate(pages, start=1):
            canvas.bookmarkPage(str(number))
            canvas.addOutlineEntry(f"{doc_id} part {number}", str(number), 0)
            canvas.drawString(5, 50, text)
            canvas.showPage()
        canvas.save()
    (folder / "scans").mkdir()
    for number, colour in enumerate(("red", "blue"), start=1):
        Image.new("RGB", (60, 40), colour).save(folder / "scans" / f"{number}.png")
    return folder


def make_store(folder: Path, texts: dict[str, list[str]]) -> DocumentStore:
    """A store of `make_inbox`, which is `folder/inbox`."""
    report = ingest(make_inbox(folder / "inbox", texts), folder / "store", settings=SETTINGS, workers=1)
    assert not report.failed
    return DocumentStore(folder / "store")
