"""Benchmarks that take seconds run, and measure what they claim to measure."""

import numpy as np
import pytest

from benchmarks import captions
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
