from __future__ import annotations

from pathlib import Path

import pypdfium2
import pytest

from docagent_rl.documents import kept_pdf as module
from docagent_rl.documents.chunks import PAGES_PER_CHUNK, ChunkTask, probe, store_chunk
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.kept_pdf import kept_pdf
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.ocr import OcrMode, OcrSettings
from docagent_rl.documents.settings import RenderSettings
from docagent_rl.documents.sources import discover


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """Names of the files that PDFium opened, in that order."""
    module._kept.close()
    names: list[str] = []
    whole = pypdfium2.PdfDocument.__init__

    def noted(self, source, *others, **options):
        names.append(Path(source).name)
        whole(self, source, *others, **options)

    monkeypatch.setattr(pypdfium2.PdfDocument, "__init__", noted)
    yield names
    module._kept.close()


def _stamp(path):
    return ((path.stat().st_size, path.stat().st_mtime_ns),)


def test_ranges_of_a_document_open_it_once(inbox, write_pdf, tmp_path, opened):
    path = write_pdf(inbox / "long.pdf", [f"page {number}" for number in range(3 * PAGES_PER_CHUNK)])
    layout = StoreLayout(tmp_path / "store").create()
    probed = probe(discover(inbox).documents[0])
    del opened[:]
    for number in range(3):
        first = number * PAGES_PER_CHUNK + 1
        stored = store_chunk(
            ChunkTask(
                "long",
                probed.source.kind,
                (path,),
                probed.stamp,
                first,
                first + PAGES_PER_CHUNK - 1,
                RenderSettings(dpi=20),
                IngestLimits(),
                OcrSettings(mode=OcrMode.NEVER),
                layout.objects,
                layout.ocr,
                tmp_path / f"{first}.json",
            )
        )
        assert stored == PAGES_PER_CHUNK
    assert opened == ["long.pdf"]


def test_another_file_another_version_and_every_ninth_block_open_anew(inbox, write_pdf, opened):
    one, other = (write_pdf(inbox / name, ["a"]) for name in ("one.pdf", "other.pdf"))
    for path in (one, one, other, one):
        with kept_pdf(path, _stamp(path)) as pdf:
            assert pdf.path == path
    assert opened == ["one.pdf", "other.pdf", "one.pdf"]
    write_pdf(one, ["a", "b"])
    for _ in range(9):
        with kept_pdf(one, _stamp(one)) as pdf:
            assert pdf.num_pages == 2
    assert opened[3:] == ["one.pdf", "one.pdf"]


def test_a_block_that_fails_closes_the_file(inbox, write_pdf, opened):
    path = write_pdf(inbox / "one.pdf", ["a"])
    with pytest.raises(DocumentError, match="no good"), kept_pdf(path, _stamp(path)):
        raise DocumentError("no good")
    with kept_pdf(path, _stamp(path)) as pdf:
        assert pdf.num_pages == 1
    assert opened == ["one.pdf", "one.pdf"]
