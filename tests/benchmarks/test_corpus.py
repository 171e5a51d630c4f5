from __future__ import annotations

import numpy as np
import pytest

from benchmarks.retrieval import corpus
from benchmarks.retrieval.corpus_data import DIM, Tokens, pages
from docagent_rl.retrieval.vectors.bank import make_bank


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
    bank = corpus.written(tmp_path, real, 700)
    assert bank.num_pages == 700
    want = make_bank(list(pages(real, 700, seed=1)), DIM)
    assert bank.offsets.tolist() == want.offsets.tolist()
    np.testing.assert_array_equal(bank.page(699), want.page(699))
    np.testing.assert_allclose(np.linalg.norm(bank.page(3), axis=1), 1, atol=0.01)
    assert corpus.written(tmp_path, real, 700).offsets[-1] == bank.offsets[-1]


@pytest.mark.slow
def test_engines_find_the_best_pages(real, tmp_path):
    bank = corpus.written(tmp_path, real, 600)
    rows = corpus.compare(bank, real.queries, ["clusters", "pooled-scan"], tmp_path)
    assert rows[0][0] == "exact scan"
    assert len(rows) == 1 + 3 * 3 + 3
    recall = {row[0]: float(row[-1]) for row in rows}
    assert recall["clusters, probes 64, 400 pages"] > 0.9
    assert recall["pooled-scan, pooled x 8, 400 pages"] > 0.5
