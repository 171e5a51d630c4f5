"""Benchmarks that take seconds run, and measure what they claim to measure."""

import numpy as np
import pytest

from benchmarks import captions, row_bytes
from benchmarks.retrieval import maxsim
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.vectors.bank import make_bank
from tests.corpus import store  # noqa: F401  a fixture


@pytest.mark.slow
def test_captions_of_reports_are_found(tmp_path):
    (tmp_path / "pdfs").mkdir()
    truth = captions.make(2, 3, tmp_path / "pdfs")
    ingest(tmp_path / "pdfs", tmp_path / "store", workers=1, ocr=OcrMode.NEVER)
    score = captions.score(truth, DocumentStore(tmp_path / "store"))
    assert score.true == sum(len(rendered.labels) for rendered in truth.values()) > 0
    assert (score.found, score.right) == (score.true, score.true)


@pytest.mark.slow
def test_ours_is_exact_where_padding_wins():
    pages, query = maxsim.document(12, 30, 6)
    lengths = [len(page) for page in pages]
    assert (min(lengths) >= 12, max(lengths) <= 48) == (True, True)
    bank = make_bank(pages, maxsim.DIM)
    want = maxsim.exact(bank, query)
    found = {name: call() for name, call in maxsim.scorers(pages, bank, query).items()}
    for name in ("ours", "sentence-transformers maxsim"):
        np.testing.assert_allclose(found[name], want, atol=1e-5)
    assert np.abs(found["colpali-engine score_multi_vector"] - want).max() > 0.1


@pytest.mark.slow
def test_a_row_and_its_requests_take_few_bytes():
    worker = row_bytes.make_worker(row_bytes.WholePositions)
    row = row_bytes.make_row(worker.processor, 2_400, 3, side=row_bytes.SIDE)
    whole = row_bytes.derived(worker, row)
    assert whole.shape[0] == 4
    stored, ours = (row_bytes.fields_of(row, each) for each in (whole, row_bytes.compact(whole)))
    *_, sums = row_bytes.row_table(stored, ours)
    theirs, mine, fetched, fetched_here = (int(n.replace(",", "")) for n in sums[1:])
    assert (mine < 0.6 * theirs, fetched_here < 0.25 * fetched) == (True, True)
    every, lacking = row_bytes.request_table(2_400, 3)
    assert 5 * int(lacking[-1].replace(",", "")) < int(every[-1].replace(",", ""))
