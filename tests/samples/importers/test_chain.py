"""All benchmarks: any row gives a sample or a reason, and a download becomes a file to train on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import DocumentStore
from docagent_rl.samples.importers import Benchmark, get_importer
from docagent_rl.samples.importers.finishing import finished
from docagent_rl.samples.importers.holdings import Holdings
from docagent_rl.samples.importers.native import NativeRow, Skip
from docagent_rl.samples.importers.report import Tally
from docagent_rl.samples.parquet import read_parquet, validate_parquet, write_parquet
from docagent_rl.samples.sample import Sample, Split, write_jsonl
from docagent_rl.samples.validation import sample_problems, validate_jsonl
from tests.samples.importers import test_corpora as corpora
from tests.samples.importers import test_pdf_sets as pdfs
from tests.samples.importers import test_picture_sets as pictures
from tests.samples.importers import test_uda as uda
from tests.samples.importers.conftest import Files

ROWS: Mapping[Benchmark, Mapping[str, Any]] = {
    Benchmark.MMLONGBENCH_DOC: pdfs.mm_row(),
    Benchmark.LONGDOCURL: pdfs.url_row(),
    Benchmark.SLIDEVQA: pictures.slide_row(),
    Benchmark.MP_DOCVQA: pictures.mp_row(),
    Benchmark.DUDE: pdfs.dude_row(),
    Benchmark.VIDOSEEK: corpora.row(),
    Benchmark.UDA: {"doc_name": "a", "q_uid": "1", "question": "Who?", "answer": "me", "doc_url": "u"},
    Benchmark.VRAG_RL: corpora.row(),
    Benchmark.UNIDOC_RL: corpora.unidoc(),
    Benchmark.ALDEN: pictures.alden_row(),
}
ODD = ["[1, 'a']", "[0]", "{'a_1': [[1, 2, 3, 4]]}", "../x", "Not answerable", "[]", "nan", "a_1", "7"]
TEXTS = st.text(max_size=20) | st.sampled_from(ODD)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def changed(row: Mapping[str, Any], data: st.DataObject) -> dict[str, Any]:
    """The row with some of its fields, or of the objects in them, replaced."""
    found = dict(row)
    for name in data.draw(st.lists(st.sampled_from(sorted(row)), min_size=1, max_size=3, unique=True)):
        inner = found[name]
        if isinstance(inner, Mapping) and data.draw(st.booleans()):
            found[name] = changed(inner, data)
        else:
            found[name] = data.draw(VALUES)
    return found


@pytest.mark.parametrize("benchmark", Benchmark)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_row_gives_a_sample_or_a_reason(benchmark, data):
    importer = get_importer(benchmark)
    dataset = "uda_feta" if benchmark is Benchmark.UDA else "any"
    row = NativeRow(Path("file.json"), 0, changed(ROWS[benchmark], data), dataset, Split.TRAIN, "file")
    try:
        draft = importer.draft(row)
        importer.settle([draft])
        sample = finished(draft, importer.base, Holdings(lengths={draft.doc_id: 5}), Tally())
    except Skip:
        return
    assert Sample.from_json(sample.to_json()) == sample
    problems = [problem for problem in sample_problems(sample) if "no reference answer" not in problem]
    assert problems == []


def miniature(benchmark: Benchmark, files: Files) -> None:
    """A download of two questions."""
    match benchmark:
        case Benchmark.MMLONGBENCH_DOC:
            files.pdf("data/documents/annual_report.v2.pdf", 4)
            nothing = {"answer": "Not answerable", "answer_format": "None", "evidence_pages": "[2]"}
            files.json("data/samples.json", [pdfs.mm_row(), pdfs.mm_row(**nothing)])
        case Benchmark.LONGDOCURL:
            files.pdf("pdf_files/4026369.pdf", 6)
            files.jsonl(pdfs.URL_FILE, [pdfs.url_row(), pdfs.url_row(question_id="b", answer=3)])
        case Benchmark.SLIDEVQA:
            files.parquet("data/test-0.parquet", [pictures.deck_row(3), pictures.deck_row(3, qa_id=2)])
        case Benchmark.MP_DOCVQA:
            files.images("images/pybv0228_p{}.jpg", (80, 81, 82))
            pictures.write_mp(files, "val", [pictures.mp_row(), pictures.mp_row(questionId=2)])
        case Benchmark.DUDE:
            files.pdf("PDF/train/0017b64b.pdf", 3)
            pdfs.write_dude(files, [pdfs.dude_row(), pdfs.dude_row(questionId="n", **pdfs.NOTHING)])
        case Benchmark.VIDOSEEK:
            files.pdf("vidoseek_pdf_document/a_b_02.pdf", 11)
            files.json("vidoseek.json", {"examples": [corpora.row(), corpora.row(uid="b")]})
        case Benchmark.UDA:
            files.pdf("src_doc_files/wiki_feta_docs/pdfs/a.pdf", 1)
            files.text("dataset/qa/feta_qa.csv", uda.FETA + "a|1|Who?|me|u\na|2|Why?|so|u\n")
        case Benchmark.VRAG_RL:
            files.pdf("pdf/a_b_02.pdf", 11)
            files.json("rag_dataset.json", {"examples": [corpora.row(uid=1), corpora.row(uid=2)]})
        case Benchmark.UNIDOC_RL:
            files.parquet("train.parquet", [corpora.unidoc(), corpora.unidoc()])
            files.images("img/deck_a_{}.jpg", (1, 2, 3))
            files.images("img/deck_b_{}.jpg", (1,))
        case Benchmark.ALDEN:
            pictures.corpus(files, {"scan": pictures.ORDER["scan"]})
            nothing = {"answer": "The problem is not answerable", "answer_page_idx": []}
            files.parquet("dude/train.parquet", [pictures.alden_row(), pictures.alden_row(**nothing)])


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", Benchmark)
def test_a_benchmark_becomes_a_file_to_train_on(files, run, tmp_path, benchmark):
    miniature(benchmark, files)
    samples, report = run(benchmark, store=True)
    assert (len(samples), report.rows_read, report.skipped.counts.total()) == (2, 2, 0)
    assert report.documents["missing"] == report.documents["failed"] == 0
    store = DocumentStore(tmp_path / "store")
    lines = validate_jsonl(write_jsonl(samples, tmp_path / "samples.jsonl"), store=store)
    assert lines.problems == ()
    path = write_parquet(samples, tmp_path / "samples.parquet")
    assert validate_parquet(path, store=store).problems == ()
    assert read_parquet(path) == samples

    again, second = run(benchmark, store=True)
    assert again == samples
    assert second.to_json() == report.to_json()
    elsewhere = run(benchmark)[0]
    assert [sample.question_id for sample in elsewhere] == [sample.question_id for sample in samples]
