"""Importers read miniatures as they read the official files."""

import pytest

from docagent_rl.documents.settings import OcrMode
from docagent_rl.lab.importers import get_importer
from docagent_rl.lab.importers.holdings import ImportSettings
from docagent_rl.lab.importers.running import run_import
from docagent_rl.lab.papers.miniature import WRITERS, write_miniature


@pytest.mark.parametrize("benchmark", WRITERS)
def test_a_miniature_is_imported_whole(benchmark, tmp_path, monkeypatch):
    from functools import partial

    from docagent_rl.lab.importers import holdings
    from tests.documents.here import HerePool, ingest_here

    monkeypatch.setattr(holdings, "ingest", partial(ingest_here, ocr=OcrMode.NEVER))
    monkeypatch.setattr(holdings, "WorkerPool", HerePool)
    write_miniature(benchmark, tmp_path / "download")
    settings = ImportSettings(tmp_path / "store", workers=1, any_count=True)
    parts, report = run_import(get_importer(benchmark), tmp_path / "download", settings)
    samples = [sample for part in parts.values() for sample in part]
    assert not report.skipped
    assert report.documents["missing"] == report.documents["failed"] == 0
    assert len(samples) >= 10
    assert {sample.doc_id.partition("-")[0] for sample in samples} == {benchmark.value}
    if benchmark != "uda":
        assert all(s.gold_pages for s in samples if s.answerable)
