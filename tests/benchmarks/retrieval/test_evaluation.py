"""The benchmark of retrieval on a real store of two documents, one of them with a scan, with real
BM25.
"""

import json
from pathlib import Path

import pytest

from benchmarks.retrieval.evaluation import Scope, Score
from benchmarks.retrieval.run import markdown, measure
from docagent_rl.documents import RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from tests.documents.conftest import write_pdf
from tools.documents.scan import scan_pdf

LICENCE = {"licence": "GPL-2", "licence_file": "copyright", "sha256": "0" * 64}
ENTRY = {"title": "t", "kind": "manual", "package": "p", "version": "1", "path": "a.pdf", **LICENCE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("documents")
    pdfs = folder / "pdfs"
    write_pdf(pdfs / "birds.pdf", ["geese fly south", "an owl hunts at night", "owls and geese"])
    write_pdf(pdfs / "boats.pdf", ["owls are sails too", "a keel holds the course"])
    scan = scan_pdf((pdfs / "birds.pdf").read_bytes(), dpi=50, seed=0, title="scan")
    (pdfs / "birds-scan.pdf").write_bytes(scan)
    unread = OcrMode.NEVER
    ingest(
        pdfs, folder / "store", settings=RenderSettings(dpi=20), workers=1, strict=True, ocr=unread
    )
    documents = [{"doc_id": "birds", "pages": 3, **ENTRY}, {"doc_id": "boats", "pages": 2, **ENTRY}]
    scans = [{"doc_id": "birds-scan", "of": "birds", "dpi": 50, "seed": 0}]
    (folder / "documents.json").write_text(json.dumps({"documents": documents, "scans": scans}))
    names = ("doc_id", "question", "answers", "evidence_pages", "extra")
    asked = [
        ("birds", "who hunts?", "a", 2, {"kind": "text"}),
        ("birds", "geese", "b", [1, 3], {"kind": "figure"}),
        ("boats", "owls", "c", [1], {"kind": "chart"}),
        ("boats", "rudder", "d", [1], {"kind": "chart"}),
    ]
    lines = [json.dumps(dict(zip(names, values, strict=True))) for values in asked]
    (folder / "questions.jsonl").write_text("\n".join(lines))
    return folder


def test_results_are_by_kind_scope_and_scan(folder):
    store = DocumentStore(folder / "store")
    results, lines = measure(store, ["bm25"], folder / "questions.jsonl", folder / "documents.json")
    by_part = {result.part: result.scores for result in results}
    assert list(by_part) == ["text", "chart", "figure", "all", "original", "scan"]
    assert by_part["text"][Scope.CORPUS] == Score(1, 1.0, 1.0, 1.0)
    assert by_part["figure"][Scope.DOCUMENT] == Score(1, 0.5, 1.0, 1.0)
    # no page has the word of one of the two
    assert by_part["chart"][Scope.DOCUMENT] == Score(2, 0.5, 0.5, 0.5)
    # in the corpus a shorter page of the other document comes before it
    found = by_part["chart"][Scope.CORPUS]
    assert (found.recall_1, found.recall_5) == (0.0, 0.5)
    assert by_part["all"][Scope.DOCUMENT] == Score(4, (1 + 0.5 + 1) / 4, 0.75, 0.75)
    assert by_part["original"][Scope.DOCUMENT] == Score(2, 0.75, 1.0, 1.0)
    # without text there is nothing to find, and the original is not there to be found instead
    assert by_part["scan"][Scope.CORPUS] == Score(2, 0.0, 0.0, 0.0)
    ranks = [json.loads(line) for line in lines.splitlines()]
    assert len(ranks) == 6
    assert ranks[1]["evidence_pages"] == [1, 3]
    assert sorted(ranks[1]["document"]) == [1, 2]
    assert (ranks[4]["doc_id"], ranks[4]["corpus"]) == ("birds-scan", [None])
    table = markdown(results).splitlines()
    assert len(table) == 2 + 6
    assert table[2] == "| bm25 | text | 1 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |"
