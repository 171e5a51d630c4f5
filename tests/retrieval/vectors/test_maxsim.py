from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.retrieval.vectors import maxsim
from docagent_rl.retrieval.vectors.bank import Precision, make_bank
from docagent_rl.retrieval.vectors.candidates import Candidates, Clusters, cluster_count, train
from docagent_rl.retrieval.vectors.encoding import pool_vectors
from docagent_rl.retrieval.vectors.maxsim import (
    NO_SCORE,
    Engine,
    default_engine,
    page_scores,
    rank_rows,
    round_query,
    scattered_scores,
)

CLOSE = {"atol": 2e-5, "rtol": 1e-5}


def _slow(bank, query):
    """The definition, in float64, on the stored vectors."""
    asked = round_query(query).double().numpy()
    rows = bank.vectors.double().numpy()
    if bank.scales is not None:
        rows = rows * bank.scales[:, None].astype(np.float64)
    scores = []
    for start, end in zip(bank.offsets[:-1], bank.offsets[1:], strict=True):
        similarities = [[float(q @ v) for v in rows[start:end]] for q in asked]
        scores.append(sum(max(row) for row in similarities) if start < end else NO_SCORE)
    return np.array(scores)


@st.composite
def _cases(draw):
    """Pages, a query and a precision."""
    dim = draw(st.sampled_from([1, 3, 8, 40, 128]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(0, 30), min_size=1, max_size=8))
    pages = [rng.standard_normal((n, dim)).astype(np.float32) / dim**0.5 for n in lengths]
    query = rng.standard_normal((draw(st.integers(1, 16)), dim)).astype(np.float32) / dim**0.5
    if draw(st.booleans()):  # no similarity is positive
        pages, query = [-np.abs(page) for page in pages], np.abs(query)
    if draw(st.booleans()):
        pages.append(pages[0].copy())
    return pages, query, draw(st.sampled_from(Precision))


@settings(max_examples=30)
@given(_cases(), st.sampled_from(Engine))
def test_scores_are_those_of_the_definition(case, engine):
    pages, query, precision = case
    bank = make_bank(pages, query.shape[1], precision)
    want = _slow(bank, query)
    (found,) = page_scores(bank, [query], engine=engine)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, want, **CLOSE)
    scattered = scattered_scores(bank, query, np.arange(bank.num_pages), engine=engine)
    np.testing.assert_allclose(scattered, want, **CLOSE)


@settings(max_examples=30)
@given(_cases(), st.data())
def test_a_score_does_not_depend_on_what_is_scored_with_it(case, data):
    pages, query, precision = case
    bank = make_bank(pages, query.shape[1], precision)
    (together,) = page_scores(bank, [query], engine=Engine.NUMKONG)
    first = data.draw(st.integers(0, bank.num_pages - 1))
    last = data.draw(st.integers(first, bank.num_pages))
    twice = page_scores(bank, [query[::-1], query], first, last, engine=Engine.NUMKONG)[1]
    assert twice.tobytes() == together[first:last].tobytes()
    some = np.array(data.draw(st.lists(st.integers(0, bank.num_pages - 1), max_size=8)), dtype=np.int64)
    assert scattered_scores(bank, query, some, engine=Engine.NUMKONG).tobytes() == together[some].tobytes()
    alone = make_bank([pages[first]], query.shape[1], precision)
    assert page_scores(alone, [query], engine=Engine.NUMKONG)[0, 0] == together[first]


@pytest.mark.parametrize("engine", Engine)
def test_long_banks_are_scored_in_blocks_and_alike(engine, monkeypatch):
    rng = np.random.default_rng(0)
    pages = [rng.standard_normal((n, 128)).astype(np.float32) for n in rng.integers(0, 900, 60)]
    query = rng.standard_normal((20, 128)).astype(np.float32)
    bank = make_bank(pages, 128)
    (found,) = page_scores(bank, [query], engine=engine)
    monkeypatch.setattr("docagent_rl.retrieval.vectors.maxsim._BLOCK", 10**9)
    (at_once,) = page_scores(bank, [query], engine=engine)
    np.testing.assert_allclose(found, at_once, rtol=1e-6)
    if engine is Engine.NUMKONG:
        assert found.tobytes() == at_once.tobytes()


def test_a_page_beside_a_longer_one_keeps_its_negative_score():
    query = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    short, long = np.array([[-0.5, -0.75]], np.float32), np.full((9, 2), -0.25, np.float32)
    (found,) = page_scores(make_bank([short, long, np.zeros((0, 2), np.float32)], 2), [query])
    assert found.tolist() == [-1.25, -0.5, NO_SCORE]


def test_a_query_that_does_not_fit_is_refused_and_int8_is_close():
    rng = np.random.default_rng(1)
    pages = [rng.standard_normal((n, 128)).astype(np.float32) / 11 for n in (30, 50)]
    query = rng.standard_normal((20, 128)).astype(np.float32) / 11
    full, small = (page_scores(make_bank(pages, 128, kind), [query])[0] for kind in Precision)
    assert 0 < np.abs(full - small).max() < 0.05
    for wrong in (np.zeros((0, 128)), np.zeros(128), np.full((1, 128), np.nan), np.ones((1, 5))):
        with pytest.raises(ValueError):
            page_scores(make_bank(pages, 128), [wrong.astype(np.float32)])


def test_ranks_keep_what_is_not_positive_and_break_ties_by_row():
    scores = np.array([-2, 0, NO_SCORE, -1, 0, -1], np.float32)
    assert rank_rows(scores, 3).tolist() == [1, 4, 3]
    assert rank_rows(scores, 99).tolist() == [1, 4, 3, 5, 0]
    assert rank_rows(np.full(3, NO_SCORE, np.float32), 2).tolist() == []


def test_a_wrong_or_absent_engine_is_noticed(monkeypatch, caplog):
    assert default_engine() is Engine.NUMKONG
    real = maxsim._numkong

    def wrong(query, vectors):
        return lambda start, end: real(query, vectors)(start, end) + np.float32(1e-3)

    with monkeypatch.context() as patch:
        patch.setattr(maxsim, "_numkong", wrong)
        assert default_engine.__wrapped__() is Engine.TORCH
    assert "1.0e-03" in caplog.text
    monkeypatch.setitem(sys.modules, "numkong", None)
    assert default_engine.__wrapped__() is Engine.TORCH


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
    return Candidates.make(make_bank(pages, DIM), Clusters(train(np.concatenate(pages), 256)))


def test_the_best_pages_are_among_the_first(pages, candidates):
    rng = np.random.default_rng(1)
    bank, found = make_bank(pages, DIM), 0
    for number in rng.choice(PAGES, 30, replace=False):
        query = _unit(pages[number][:6] + rng.standard_normal((min(6, len(pages[number])), DIM)) * 0.1)
        best = rank_rows(page_scores(bank, [query])[0], 5)
        found += len(set(best.tolist()) & set(rank_rows(candidates.sums(query), 60).tolist()))
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
    # each vector is the centre of its cluster
    centres = np.eye(5, dtype=np.float32)
    bank = make_bank([centres[codes] for codes in ([3], [2, 0], [], [2, 0], [2, 2])], 5)
    found = Candidates.make(bank, Clusters(centres))
    assert found.starts.tolist() == [0, 2, 2, 5, 6, 6]
    assert found.pages.tolist() == [1, 3, 1, 3, 4, 0]


def test_training_gives_the_same_each_time_and_assigned_is_the_most_alike(pages, candidates):
    rows = np.concatenate(pages)
    want = (rows @ candidates.clusters.centres.T).argmax(1)
    assert (candidates.clusters.assign(rows) == want).mean() > 0.9
    first, second = train(rows, 100), train(rows, 100)
    assert first.tobytes() == second.tobytes()
    assert 90 <= len(first) <= 130
    assert len(train(rows[:3], 16)) <= 3
    # clusters grow with the root of the vectors
    counts = {0: 16, 10: 32, 600_000: 8192, 4_700_000: 16_384, 51_000_000: 65_536, 10**9: 65_536}
    assert {vectors: cluster_count(vectors) for vectors in counts} == counts


def test_similar_vectors_are_joined():
    rng = np.random.default_rng(0)
    topics = _unit(rng.standard_normal((3, 32)))
    order = np.array([2, 0, 1, 0, 2, 1, 0, 2, 1])
    found = pool_vectors(_unit(topics[order] + rng.standard_normal((9, 32)) * 0.01), 3)
    np.testing.assert_allclose(found, topics[[2, 0, 1]], atol=0.05)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-6)
    opposite = pool_vectors(np.array([[1, 0], [-1, 0]], np.float32), 2)
    assert opposite.tolist() == [[0, 0]]
    for factor in (2, 3):  # all the same become one each time
        assert pool_vectors(np.tile(_unit(np.ones((1, 4))), (12, 1)), factor).tolist() == [[0.5] * 4]


@settings(max_examples=40)
@given(st.integers(0, 40), st.integers(1, 9), st.integers(0, 99))
def test_one_in_so_many_is_left(count, factor, seed):
    vectors = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    found = pool_vectors(vectors, factor)
    assert found.dtype == np.float32
    assert len(found) <= max(count // factor, min(count, 1))
    assert bool(len(found)) == bool(count)
    assert np.isfinite(found).all()
    assert factor > 1 or found is vectors
