import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.retrieval.vectors import bank as bank_module
from docagent_rl.retrieval.vectors.bank import NO_SCORE, make_bank, page_scores, rounded


def _slow(bank, query):
    """Return scores by the definition, in float64, with the stored vectors."""
    asked, rows = rounded(query).astype(np.float64), bank.vectors.double().numpy()
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
    return pages, query


@settings(max_examples=30)
@given(_cases(), st.data())
def test_scores_are_those_of_the_definition_whatever_is_scored_with_them(case, data):
    pages, query = case
    bank = make_bank(pages, query.shape[1])
    want = _slow(bank, query)
    found = page_scores(bank, [query, query[::-1]])
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, [want, want], atol=2e-5, rtol=1e-5)
    first = data.draw(st.integers(0, bank.num_pages - 1))
    last = data.draw(st.integers(first, bank.num_pages))
    part = page_scores(bank, [query], first, last)[0]
    np.testing.assert_allclose(part, want[first:last], atol=2e-5, rtol=1e-5)
    assert page_scores(bank, [query]).tobytes() == found[:1].tobytes()


def test_long_banks_are_scored_in_blocks_and_alike(monkeypatch):
    rng = np.random.default_rng(0)
    pages = [rng.standard_normal((n, 128)).astype(np.float32) for n in rng.integers(0, 900, 60)]
    query = rng.standard_normal((20, 128)).astype(np.float32)
    bank = make_bank(pages, 128)
    (found,) = page_scores(bank, [query])
    monkeypatch.setattr("docagent_rl.retrieval.vectors.bank._ON_CPU", 10**9)
    np.testing.assert_allclose(found, page_scores(bank, [query])[0], rtol=1e-6)


def test_a_device_finds_the_maxima_of_each_page():
    products = torch.from_numpy(np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32))
    found = bank_module._maxima(products, np.array([0, 3, 0, 1, 5, 0]))
    none = torch.full((4,), NO_SCORE)
    want = [none, products[:, :3].amax(1), none, products[:, 3], products[:, 4:].amax(1), none]
    assert torch.equal(found, torch.stack(want, dim=1))


def test_a_page_beside_a_longer_one_keeps_its_negative_score():
    query = np.array([[1.0, 0.0], [0.0, 1.0]], np.float32)
    short, long = np.array([[-0.5, -0.75]], np.float32), np.full((9, 2), -0.25, np.float32)
    (found,) = page_scores(make_bank([short, long, np.zeros((0, 2), np.float32)], 2), [query])
    assert found.tolist() == [-1.25, -0.5, NO_SCORE]


def test_a_query_that_does_not_fit_is_refused():
    bank = make_bank([np.ones((3, 128), np.float32)], 128)
    for wrong in (np.zeros((0, 128)), np.zeros(128), np.full((1, 128), np.nan), np.ones((1, 5))):
        with pytest.raises(ValueError):
            page_scores(bank, [wrong.astype(np.float32)])
