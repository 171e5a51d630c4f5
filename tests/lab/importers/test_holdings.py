"""Documents of a download are measured, read into the store, or refused."""

import os

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers import Benchmark, get_importer, holdings
from docagent_rl.lab.importers.holdings import Holdings, ImportSettings
from docagent_rl.lab.importers.running import run_import
from tests.documents.here import HerePool
from tests.lab.importers.conftest import numbers
from tests.lab.importers.test_mmlongbench import mm_row
from tests.lab.importers.test_picture_sets import deck_row


def test_sizes_of_pages_count_from_one():
    found = Holdings(sizes={"d": ((1.0, 2.0), (3.0, 4.0))})
    assert [found.size("d", page) for page in range(4)] == [None, (1.0, 2.0), (3.0, 4.0), None]
    assert found.size("other", 1) is None


@pytest.mark.parametrize(("given", "cores", "expected"), [(3, 8, 3), (None, 8, 8), (None, None, 1)])
def test_documents_are_measured_by_as_many_processes_as_there_are_cores(
    files, monkeypatch, given, cores, expected
):
    started = []

    class Noted(HerePool):
        def __init__(self, workers, limits) -> None:
            started.append(workers)

    monkeypatch.setattr(holdings, "WorkerPool", Noted)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    files.pdf("documents/annual_report.v2.pdf", 3)
    files.json("samples.json", [mm_row()])
    settings = ImportSettings(workers=given, any_count=True)
    run_import(get_importer(Benchmark.MMLONGBENCH_DOC), files.root, settings)
    assert started == [expected]


def test_documents_are_read_as_the_import_says(files, tmp_path, monkeypatch):
    files.pdf("documents/annual_report.v2.pdf", 3)
    files.json("samples.json", [mm_row()])
    given, read = [], holdings.ingest

    def noting(*arguments, **options):
        given.append(options)
        return read(*arguments, **options)

    monkeypatch.setattr(holdings, "ingest", noting)
    render = RenderSettings(dpi=72)
    settings = ImportSettings(tmp_path / "store", render, workers=1, any_count=True)
    run_import(get_importer(Benchmark.MMLONGBENCH_DOC), files.root, settings)
    expected = {"settings": render, "workers": 1, "progress": False, "replace": False}
    assert [{name: options[name] for name in expected} for options in given] == [expected]
    # 360 by 180 points
    assert DocumentStore(tmp_path / "store").document("annual_report.v2").page(1).size == (360, 180)


def test_a_store_may_lie_in_folders_that_are_made(files, tmp_path):
    files.parquet("data/train-0.parquet", [deck_row(2, evidence_pages=[1])])
    store = tmp_path / "new" / "deeper" / "store"
    settings = ImportSettings(store, RenderSettings(dpi=36), workers=1, any_count=True)
    run_import(get_importer(Benchmark.SLIDEVQA), files.root, settings)
    assert DocumentStore(store).doc_ids() == ["growth-2012_95"]
    assert [path.name for path in store.parent.iterdir()] == ["store"]


def test_without_a_whole_document_nothing_is_read(files, run, tmp_path):
    files.parquet("data/train-0.parquet", [deck_row(3, page_2=None)])
    with pytest.raises(
        UserError, match="its document cannot be used: one of its pages has no picture: 1"
    ):
        run("slidevqa", store=True)
    assert [path.name for path in tmp_path.iterdir()] == ["download"]


def test_many_documents_of_pictures_are_read_a_few_at_a_time(files, run, tmp_path, monkeypatch):
    monkeypatch.setattr(holdings, "_PICTURED", 2)
    rows = [
        deck_row(1, deck_name=f"d{number}", qa_id=number, evidence_pages=[1]) for number in range(5)
    ]
    files.parquet("data/train-0.parquet", rows)
    samples, report = run("slidevqa", store=True)
    assert [sample.doc_id for sample in samples] == DocumentStore(tmp_path / "store").doc_ids()
    assert (len(samples), numbers(report.skipped)) == (5, [])
