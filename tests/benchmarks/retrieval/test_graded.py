"""From a download of ViDoRe V3 to the nDCG@10 of a real index."""

import math
from dataclasses import replace
from functools import partial

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.retrieval.graded import ALL, lines, main, ndcg_by_language
from docagent_rl.base.errors import UserError
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.importers import Benchmark, get_importer
from docagent_rl.lab.importers.holdings import ImportSettings
from docagent_rl.lab.importers.running import run_import
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.samples.sample import write_jsonl
from tests.documents.conftest import write_pdf
from tests.documents.here import HerePool, ingest_here
from tests.lab.importers import test_vidore as vidore
from tests.lab.importers.conftest import Files

LOG3 = math.log2(3)


@pytest.fixture
def imported(tmp_path, monkeypatch):
    """Return a store with the words of two pages, and the queries of a download about the same
    pages.
    """
    write_pdf(tmp_path / "pdfs" / "eu.pdf", ["working hours in Norway", "hours of owls"])
    write_pdf(tmp_path / "pdfs" / "wages.pdf", ["wages", "geese"])
    settings = RenderSettings(dpi=20)
    ingest_here(tmp_path / "pdfs", tmp_path / "store", settings=settings, ocr=OcrMode.NEVER)
    store = DocumentStore(tmp_path / "store")
    files = Files(tmp_path / "download")
    queries = [
        vidore.query(0, query="working hours"),
        vidore.query(1, query="geese"),
        vidore.query(2, query="owls", language="french"),
    ]
    judged = [
        vidore.judged(0, 5, 1),
        vidore.judged(0, 7, 2),
        vidore.judged(1, 3, 2),
        vidore.judged(2, 3, 1),
    ]
    vidore.write(files, queries, judged)
    holdings = "docagent_rl.lab.importers.holdings"
    monkeypatch.setattr(f"{holdings}.ingest", partial(ingest_here, ocr=OcrMode.NEVER))
    monkeypatch.setattr(f"{holdings}.WorkerPool", HerePool)
    parts, _ = run_import(get_importer(Benchmark.VIDORE_V3), files.root, ImportSettings(workers=1))
    (samples,) = parts.values()
    return store, samples, tmp_path


def test_ndcg_is_by_language_and_the_mean_over_languages(imported):
    store, samples, _ = imported
    found = ndcg_by_language(BM25Retriever.build(store), samples, store)
    # of two pages with the word "hours", the second best answers first
    english = ((1 + 2 / LOG3) / (2 + 1 / LOG3) + 1.0) / 2
    assert found == {
        "english": pytest.approx(english),
        "french": 0.0,
        ALL: pytest.approx(english / 2),
    }
    header, row = lines({"bm25": found})
    assert (header, row[0], row[-1]) == (
        ["index", "english", "french", ALL],
        "bm25",
        f"{50 * english:.1f}",
    )


def test_the_command_measures_an_index_on_imported_questions(imported):
    store, samples, folder = imported
    BM25Retriever.build(store).save(folder / "bm25")
    questions, out = write_jsonl(samples, folder / "vidore_v3.jsonl"), folder / "table.md"
    app = typer.Typer()
    app.command()(main)
    options = ["--index", folder / "bm25", "--store", store.path, "--out", out]
    assert CliRunner().invoke(app, [str(each) for each in (questions, *options)]).exit_code == 0
    assert out.read_text().splitlines()[0] == "| index | english | french | all |"
    missing = CliRunner().invoke(
        app, [str(each) for each in (questions, "--index", folder, *options[2:4])]
    )
    assert missing.exit_code == 2


def test_questions_about_other_documents_are_refused(imported):
    store, samples, _ = imported
    retriever = BM25Retriever.build(store)
    gone = replace(samples[0], question_id="q7", doc_id="gone", extra={})
    with pytest.raises(UserError, match="question 'q7': document 'gone' is not in"):
        ndcg_by_language(retriever, [gone], store)
    bare = replace(samples[0], evidence_pages=(), extra={})
    with pytest.raises(UserError, match="no question has relevant pages"):
        ndcg_by_language(retriever, [bare], store)
