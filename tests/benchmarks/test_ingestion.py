import shutil

import pytest
from PIL import Image

from benchmarks import ingestion, overview
from benchmarks.made_documents import write_kinds
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.shown import ShownRasters
from docagent_rl.documents.store import DocumentStore
from docagent_rl.systems.doc_v_star.overview import OverviewStyle
from tests.documents.conftest import write_pdf
from tests.documents.here import ingest_here

SETTINGS = RenderSettings(dpi=36)


@pytest.fixture
def pdfs(tmp_path):
    texts = [f"page {number}" for number in range(3)]
    return write_pdf(tmp_path / "pdfs" / "a.pdf", texts, size=(595, 842)).parent


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler is not installed")
def test_both_sides_make_the_same_pages_and_texts(pdfs, tmp_path):
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.mkdir()
    assert ingestion.with_poppler(pdfs, SETTINGS, theirs, text=True, workers=1) == 3
    assert ingestion.with_ingest(pdfs, SETTINGS, ours, workers=1) == 3
    document = DocumentStore(ours / "store").document("a")
    pages = [document.page(number) for number in (1, 2, 3)]
    assert [Image.open(path).size for path in sorted(theirs.glob("*.jpg"))] == [
        page.size for page in pages
    ]
    text = (theirs / "a.txt").read_text()
    assert all(word in text for page in pages for word in page.text().split())


def test_kept_thumbnails_make_the_same_overview(pdfs, tmp_path):
    ingestion.with_ingest(pdfs, SETTINGS, tmp_path, workers=1)
    plain = DocumentStore(tmp_path / "store")
    keeping = DocumentStore(
        tmp_path / "store", shown=ShownRasters([tmp_path / "shown"], capacity=1 << 30)
    )
    pages = [plain.page(ref) for ref in plain.pages()]
    style = OverviewStyle(cell=56)
    for _ in range(2):
        assert overview.draw(keeping, pages, style) == overview.draw(plain, pages, style)


@pytest.mark.skipif(shutil.which("pdftotext") is None, reason="poppler is not installed")
def test_documents_of_each_kind_are_ingested_by_both(tmp_path, capsys):
    folders = write_kinds(tmp_path, 1)
    assert list(folders) == ["report", "scan", "form", "slides", "tables", "photos"]
    ingestion.compare_kinds(folders, SETTINGS, repeats=1)
    printed = capsys.readouterr().out
    assert all(kind in printed for kind in folders)


def test_made_documents_are_always_the_same_and_as_their_kind_says(tmp_path):
    once, again = (write_kinds(tmp_path / name, 2) for name in "ab")
    for kind, folder in once.items():
        (pdf,) = folder.iterdir()
        assert pdf.read_bytes() == (again[kind] / pdf.name).read_bytes()
    report = ingest_here(tmp_path / "a", tmp_path / "store", ocr=OcrMode.NEVER)
    assert (len(report.ingested), report.pages, report.failed) == (6, 12, [])
    store = DocumentStore(tmp_path / "store")
    letters = {kind: len(store.document(f"{kind}/{kind}").page(1).text()) for kind in once}
    assert letters.pop("scan") == 0
    assert min(letters.values()) > 80
