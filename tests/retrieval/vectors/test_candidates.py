"""The first stage: vectors in clusters, whose pages are candidates; and vectors that are pooled."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.retrieval.vectors.bank import make_bank
from docagent_rl.retrieval.vectors.candidates import Candidates, lists_of
from docagent_rl.retrieval.vectors.clusters import Clusters, cluster_count, sample_size, train
from docagent_rl.retrieval.vectors.maxsim import page_scores, ranked
from docagent_rl.retrieval.vectors.pooling import pooled

PAGES, DIM = 400, 32


def _unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def pages():
    """Pages about a few of 60 things each."""
    rng = np.random.default_rng(0)
    things = rng.standard_normal((60, DIM))
    counts = [n % 17 + 3 for n in range(PAGES)]
    return [_unit(things[rng.choice(60, n)] + rng.standard_normal((n, DIM)) * 0.4) for n in counts]


@pytest.fixture(scope="module")
def candidates(pages):
    rows = np.concatenate(pages)
    clusters = Clusters(train(rows, 256))
    owners = np.repeat(np.arange(PAGES), [len(page) for page in pages])
    starts, listed = lists_of(clusters.assigned(rows), owners, len(clusters))
    return Candidates(clusters, starts, listed, PAGES)


def test_the_best_pages_are_among_the_first(pages, candidates):
    rng = np.random.default_rng(1)
    bank, found = make_bank(pages, DIM), 0
    for number in rng.choice(PAGES, 30, replace=False):
        query = _unit(pages[number][:6] + rng.standard_normal((min(6, len(pages[number])), DIM)) * 0.1)
        best = ranked(page_scores(bank, [query])[0], 5)
        found += len(set(best.tolist()) & set(ranked(candidates.sums(query), 60).tolist()))
    assert found / 150 > 0.95


def test_sums_are_those_of_the_definition(pages, candidates):
    query = _unit(pages[7][:3] + 0.1)
    products, clusters = candidates.clusters.nearest(query, 9)
    want = np.zeros(PAGES)
    for row, numbers in zip(products, clusters, strict=True):
        best = np.zeros(PAGES)
        for product, number in zip(row, numbers, strict=True):
            listed = candidates.pages[candidates.starts[number] : candidates.starts[number + 1]]
            best[listed] = np.maximum(best[listed], product - row.min())
        want += best
    np.testing.assert_allclose(candidates.sums(query, 9), want, atol=1e-5)


def test_a_cluster_lists_its_pages_once_in_order():
    codes = np.array([2, 2, 0, 2, 0, 3, 2], np.uint16)
    rows = np.array([5, 5, 1, 4, -1, 0, 1], np.int64)
    starts, pages = lists_of(codes, rows, 5)
    assert starts.tolist() == [0, 1, 1, 4, 5, 5]
    assert pages.tolist() == [1, 1, 4, 5, 0]


def test_training_gives_the_same_each_time_and_assigned_is_the_most_alike(pages, candidates):
    rows = np.concatenate(pages)
    want = (rows @ candidates.clusters.centres.T).argmax(1)
    assert (candidates.clusters.assigned(rows) == want).mean() > 0.9
    first, second = train(rows, 100), train(rows, 100)
    assert first.tobytes() == second.tobytes()
    assert 90 <= len(first) <= 130
    assert len(train(rows[:3], 16)) <= 3


def test_clusters_grow_with_the_root_of_the_vectors():
    counts = {0: 16, 10: 32, 600_000: 8192, 4_700_000: 16_384, 51_000_000: 65_536, 10**9: 65_536}
    assert {vectors: cluster_count(vectors) for vectors in counts} == counts
    assert sample_size(8192) == 24 * 8192


def test_similar_vectors_are_joined():
    rng = np.random.default_rng(0)
    topics = _unit(rng.standard_normal((3, 32)))
    order = np.array([2, 0, 1, 0, 2, 1, 0, 2, 1])
    found = pooled(_unit(topics[order] + rng.standard_normal((9, 32)) * 0.01), 3)
    np.testing.assert_allclose(found, topics[[2, 0, 1]], atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    opposite = pooled(np.array([[1, 0], [-1, 0]], np.float32), 2)
    assert opposite.tolist() == [[0, 0]]
    for factor in (2, 3):  # all the same become one each time
        assert pooled(np.tile(_unit(np.ones((1, 4))), (12, 1)), factor).tolist() == [[0.5] * 4]


@settings(max_examples=40)
@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 99))
def test_one_in_so_many_is_left(count, factor, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    found = pooled(vectors, factor)
    assert found.dtype == np.float32
    assert len(found) <= max(count // factor, min(count, 1))
    assert bool(len(found)) == bool(count)
    assert np.isfinite(found).all()
    assert factor > 1 or found is vectors
