from __future__ import annotations

import shutil

import pytest
import typer
from PIL import Image
from reportlab.pdfgen.canvas import Canvas

from benchmarks import ingestion, overview
from docagent_rl.documents import DocumentStore, RenderSettings
from docagent_rl.documents.shown import ShownRasters
from docagent_rl.systems.doc_v_star.overview import OverviewStyle

SETTINGS = RenderSettings(dpi=36)


@pytest.fixture
def pdfs(tmp_path):
    folder = tmp_path / "pdfs"
    folder.mkdir()
    canvas = Canvas(str(folder / "a.pdf"), invariant=True)
    for number in range(3):
        canvas.drawString(100, 700, f"page {number}")
        canvas.showPage()
    canvas.save()
    return folder


def test_without_poppler_the_benchmark_says_what_is_missing(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(typer.Exit):
        ingestion.main(tmp_path)
    assert "poppler-utils" in " ".join(capsys.readouterr().err.split())


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler is not installed")
def test_both_sides_make_the_same_pages_and_texts(pdfs, tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    assert ingestion.with_poppler(pdfs, SETTINGS, theirs, text=True, workers=1) == 3
    assert ingestion.with_ingest(pdfs, SETTINGS, ours, workers=1) == 3
    document = DocumentStore(ours / "store").document("a")
    pages = [document.page(number) for number in (1, 2, 3)]
    assert [Image.open(path).size for path in sorted(theirs.glob("*.jpg"))] == [page.size for page in pages]
    text = (theirs / "a.html").read_text()
    assert all(f">{word}</word>" in text for page in pages for word in page.text().split())


def test_kept_thumbnails_make_the_same_overview(pdfs, tmp_path):
    ingestion.with_ingest(pdfs, SETTINGS, tmp_path, workers=1)
    plain = DocumentStore(tmp_path / "store")
    keeping = DocumentStore(tmp_path / "store", shown=ShownRasters([tmp_path / "shown"], capacity=1 << 30))
    pages = [plain.page(ref) for ref in plain.pages()]
    style = OverviewStyle(cell=56)
    for _ in range(2):
        assert overview.draw(keeping, pages, style) == overview.draw(plain, pages, style)
