"""Numbers of pages: as a set, and as a ranking."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.retrieval import page_numbers, ranking_scores
from tests.lab.eval.metrics import slow

ITEMS = st.integers(0, 13)
RANKINGS = st.lists(ITEMS, max_size=10)
GOLD = st.lists(ITEMS, min_size=1, max_size=5) | st.just([*range(12)])


@given(st.sets(ITEMS, max_size=5), RANKINGS)
def test_pages_are_counted_one_by_one(gold, pred):
    """ALDEN, Eq. 9 to 11."""
    numbers = slow.page_lists([(gold, set(pred))])
    wanted = {name: pytest.approx(each[0]) if each else None for name, each in numbers.items()}
    assert page_numbers(gold, pred) == wanted


@pytest.mark.parametrize(
    ("gold", "ranked", "recalls", "ndcgs", "mrr"),
    [
        ("3 4", "4 9 3", (0.5, 1.0), (1.0, 0.9197, 0.9197), 1.0),
        ("3 4", "9 8", (0, 0), (0, 0, 0), 0),
        ("3 4", "3", (0.5, 0.5), (1.0, 0.6131, 1.0), 1.0),
        ("3 4", "9 3", (0, 0.5), (0, 0.3869, 0.3869), 0.5),
        ("3 4", "3 3 4", (0.5, 1.0), (1.0, 1.3066, 1.3066), 1.0),
        ("3 4 5", "3 3", (0.3333, 0.3333), (1.0, 0.7654, 1.0), 1.0),
    ],
)
def test_worked_examples_of_vidoseek(gold, ranked, recalls, ndcgs, mrr):
    found = ranking_scores(gold.split(), ranked.split())
    assert [found[f"recall@{k}"] for k in (1, 5)] == pytest.approx(recalls, abs=5e-5)
    assert [found[f"ndcg@{k}"] for k in (1, 5, "all")] == pytest.approx(ndcgs, abs=5e-5)
    assert found["mrr@5"] == pytest.approx(mrr)


def test_without_gold_there_is_no_number():
    found = ranking_scores([], ["a"])
    assert len(found) == 16
    assert set(found.values()) == {None}


def slow_numbers(gold: list[int], ranked: list[int], k: int | None) -> dict[str, float]:
    """Section 8 of the specification: recall, hit, MRR, nDCG."""
    cut = ranked if k is None else ranked[:k]
    limit = len(ranked) if k is None else k
    places = [index for index, item in enumerate(cut) if item in gold]
    found = {cut[index] for index in places}
    dcg = sum(1 / math.log2(index + 2) for index in places)
    ideal = sum(1 / math.log2(index + 2) for index in range(min(limit, len(set(gold)))))
    mrr = 1 / (places[0] + 1) if places else 0.0
    ndcg = dcg / ideal if ideal else 0.0
    return {"recall": len(found) / len(set(gold)), "hit": float(bool(found)), "mrr": mrr, "ndcg": ndcg}


@given(GOLD, RANKINGS, st.one_of(st.none(), st.integers(1, 12)))
def test_equals_the_slow_reading_with_and_without_repetitions(gold, ranked, k):
    wanted = {f"{n}@{k or 'all'}": value for n, value in slow_numbers(gold, ranked, k).items()}
    assert ranking_scores(gold, ranked, (k,)) == pytest.approx(wanted)
