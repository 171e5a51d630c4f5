"""Benchmarks that take seconds: they run, and measure what they say."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import captions
from benchmarks.retrieval import collections, maxsim
from benchmarks.retrieval.corpus_data import DIM, Tokens, pages
from docagent_rl.documents import DocumentStore
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import OcrMode
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


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture
def real() -> Tokens:
    rng = np.random.default_rng(0)
    words = rng.standard_normal((200, DIM))
    rows = _unit(words[rng.integers(0, 200, 3000)] + rng.standard_normal((3000, DIM)) * 0.3)
    queries = [_unit(rows[start : start + 8] + 0.02) for start in range(0, 500, 100)]
    return Tokens(rows, np.arange(0, 3001, 100), queries)


def test_pages_are_those_of_the_seed(real, tmp_path):
    bank = collections.written(tmp_path, real, 700)
    assert bank.num_pages == 700
    want = make_bank(list(pages(real, 700, seed=1)), DIM)
    assert bank.offsets.tolist() == want.offsets.tolist()
    assert bank.vectors.equal(want.vectors)
    np.testing.assert_allclose(np.linalg.norm(bank.vectors.float(), axis=1), 1, atol=0.01)
    assert collections.written(tmp_path, real, 700).offsets[-1] == bank.offsets[-1]
