from __future__ import annotations

import numpy as np
import pytest

from docagent_rl.retrieval.vectors.bank import make_bank
from docagent_rl.retrieval.vectors.candidates import Candidates, lists_of
from docagent_rl.retrieval.vectors.clusters import Clusters, cluster_count, sample_size, train
from docagent_rl.retrieval.vectors.maxsim import page_scores, ranked

PAGES, DIM = 400, 32


def _unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def pages() -> list[np.ndarray]:
    """Pages about a few of 60 things each."""
    rng = np.random.default_rng(0)
    things = rng.standard_normal((60, DIM))
    return [
        _unit(things[rng.choice(60, n % 17 + 3)] + rng.standard_normal((n % 17 + 3, DIM)) * 0.4)
        for n in range(PAGES)
    ]


@pytest.fixture(scope="module")
def candidates(pages: list[np.ndarray]) -> Candidates:
    rows = np.concatenate(pages)
    clusters = Clusters(train(rows, 256))
    owners = np.repeat(np.arange(PAGES), [len(page) for page in pages])
    starts, listed = lists_of(clusters.assigned(rows), owners, len(clusters))
    return Candidates(clusters, starts, listed, PAGES)


def test_the_best_pages_are_among_the_first(pages: list[np.ndarray], candidates: Candidates) -> None:
    rng = np.random.default_rng(1)
    bank, found = make_bank(pages, DIM), 0
    for number in rng.choice(PAGES, 30, replace=False):
        query = _unit(pages[number][:6] + rng.standard_normal((min(6, len(pages[number])), DIM)) * 0.1)
        best = ranked(page_scores(bank, [query])[0], 5)
        found += len(set(best.tolist()) & set(ranked(candidates.sums(query), 60).tolist()))
    assert found / 150 > 0.95


def test_sums_are_those_of_the_definition(pages: list[np.ndarray], candidates: Candidates) -> None:
    query = _unit(pages[7][:3] + 0.1)
    products, clusters = candidates.clusters.nearest(query, 9)
    want = np.zeros(PAGES)
    for row, numbers in zip(products, clusters, strict=True):
        for page in range(PAGES):
            among = [
                product - row.min()
                for product, number in zip(row, numbers, strict=True)
                if page in candidates.pages[candidates.starts[number] : candidates.starts[number + 1]]
            ]
            want[page] += max(among, default=0)
    np.testing.assert_allclose(candidates.sums(query, 9), want, atol=1e-5)


def test_a_cluster_lists_its_pages_once_in_order() -> None:
    codes = np.array([2, 2, 0, 2, 0, 3, 2], np.uint16)
    rows = np.array([5, 5, 1, 4, -1, 0, 1], np.int64)
    starts, pages = lists_of(codes, rows, 5)
    assert starts.tolist() == [0, 1, 1, 4, 5, 5]
    assert pages.tolist() == [1, 1, 4, 5, 0]


def test_assigned_is_the_most_alike(pages: list[np.ndarray], candidates: Candidates) -> None:
    rows = np.concatenate(pages)
    want = (rows @ candidates.clusters.centres.T).argmax(1)
    assert (candidates.clusters.assigned(rows) == want).mean() > 0.9


def test_training_gives_the_same_each_time(pages: list[np.ndarray]) -> None:
    rows = np.concatenate(pages)
    first, second = train(rows, 100), train(rows, 100)
    assert first.tobytes() == second.tobytes()
    assert 90 <= len(first) <= 130
    assert len(train(rows[:3], 16)) <= 3


@pytest.mark.parametrize(
    ("vectors", "clusters"),
    [(0, 16), (10, 32), (600_000, 8192), (4_700_000, 16_384), (51_000_000, 65_536), (10**9, 65_536)],
)
def test_clusters_grow_with_the_root_of_the_vectors(vectors: int, clusters: int) -> None:
    assert cluster_count(vectors) == clusters
    assert sample_size(clusters) == 24 * clusters
