from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.retrieval.vectors import maxsim
from docagent_rl.retrieval.vectors.bank import make_bank
from docagent_rl.retrieval.vectors.maxsim import (
    NO_SCORE,
    Engine,
    default_engine,
    page_scores,
    rank_rows,
    round_query,
)

CLOSE = {"atol": 2e-5, "rtol": 1e-5}


def _slow(bank, query):
    """The definition, in float64, on the stored vectors."""
    asked = round_query(query).double().numpy()
    rows = bank.vectors.double().numpy()
    scores = []
    for start, end in zip(bank.offsets[:-1], bank.offsets[1:], strict=True):
        similarities = [[float(q @ v) for v in rows[start:end]] for q in asked]
        scores.append(sum(max(row) for row in similarities) if start < end else NO_SCORE)
    return np.array(scores)


@st.composite
def _cases(draw):
    """Pages and a query."""
    dim = draw(st.sampled_from([1, 3, 8, 40, 128]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    lengths = draw(st.lists(st.integers(0, 30), min_size=1, max_size=8))
    pages = [rng.standard_normal((n, dim)).astype(np.float32) / dim**0.5 for n in lengths]
    query = rng.standard_normal((draw(st.integers(1, 16)), dim)).astype(np.float32) / dim**0.5
    if draw(st.booleans()):  # no similarity is positive
        pages, query = [-np.abs(page) for page in pages], np.abs(query)
    if draw(st.booleans()):
        pages.append(pages[0].copy())
    return pages, query


@settings(max_examples=30)
@given(_cases(), st.sampled_from(Engine))
def test_scores_are_those_of_the_definition(case, engine):
    pages, query = case
    bank = make_bank(pages, query.shape[1])
    want = _slow(bank, query)
    (found,) = page_scores(bank, [query], engine=engine)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, want, **CLOSE)


@settings(max_examples=30)
@given(_cases(), st.data())
def test_a_score_does_not_depend_on_what_is_scored_with_it(case, data):
    pages, query = case
    bank = make_bank(pages, query.shape[1])
    (together,) = page_scores(bank, [query], engine=Engine.NUMKONG)
    first = data.draw(st.integers(0, bank.num_pages - 1))
    last = data.draw(st.integers(first, bank.num_pages))
    twice = page_scores(bank, [query[::-1], query], first, last, engine=Engine.NUMKONG)[1]
    assert twice.tobytes() == together[first:last].tobytes()
    alone = make_bank([pages[first]], query.shape[1])
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


def test_a_query_that_does_not_fit_is_refused():
    pages = [np.ones((3, 128), np.float32)]
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
    real = maxsim.dots_of

    def wrong(*asked):
        return lambda start, end: real(*asked)(start, end) + np.float32(1e-3)

    with monkeypatch.context() as patch:
        patch.setattr(maxsim, "dots_of", wrong)
        assert default_engine.__wrapped__() is Engine.TORCH
    assert "1.0e-03" in caplog.text
    monkeypatch.setitem(sys.modules, "numkong", None)
    assert default_engine.__wrapped__() is Engine.TORCH
