"""Numbers of pages: as a set (`pages`), and as a ranking (`retrieval`)."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.lab.eval.metrics.pages import page_f1, page_numbers, page_precision, page_recall
from docagent_rl.lab.eval.metrics.retrieval import (
    distinct,
    hit_at_k,
    mrr_at_k,
    ndcg,
    ndcg_at_k,
    ranking_scores,
    recall_at_k,
)

MEASURES = (recall_at_k, hit_at_k, mrr_at_k, ndcg_at_k)
ITEMS = st.integers(0, 13)
RANKINGS = st.lists(ITEMS, max_size=10)
GOLD = st.lists(ITEMS, min_size=1, max_size=5) | st.just([*range(12)])


@given(st.sets(ITEMS, max_size=5), RANKINGS)
def test_pages_are_counted_one_by_one(gold, pred):
    """ALDEN, Eq. 9 to 11."""
    found = page_numbers(gold, pred)
    single = {"recall": page_recall, "precision": page_precision, "f1": page_f1}
    assert found == {name: number(gold, pred) for name, number in single.items()}
    if not gold:
        assert set(found.values()) == {None}
        return
    distinct = [page for place, page in enumerate(pred) if page not in pred[:place]]
    both = sum(page in gold for page in distinct)
    recall, precision = both / len(gold), both / len(distinct) if distinct else 0.0
    f1 = 2 * precision * recall / (precision + recall) if both else 0.0
    assert found == pytest.approx({"recall": recall, "precision": precision, "f1": f1})


@pytest.mark.parametrize(
    ("gold", "ranked", "recalls", "ndcgs", "mrr"),
    [
        ("3 4", "4 9 3", (0.5, 1.0), (1.0, 0.9197, 0.9197), 1.0),
        ("3 4", "9 8", (0, 0), (0, 0, 0), 0),
        ("3 4", "3", (0.5, 0.5), (1.0, 0.6131, 1.0), 1.0),
        ("3 4", "3 3 4", (0.5, 1.0), (1.0, 1.3066, 1.3066), 1.0),
        ("3 4 5", "3 3", (0.3333, 0.3333), (1.0, 0.7654, 1.0), 1.0),
    ],
)
def test_worked_examples_of_vidoseek(gold, ranked, recalls, ndcgs, mrr):
    gold, ranked = [f"d_{page}" for page in gold.split()], [f"d_{page}" for page in ranked.split()]
    assert [recall_at_k(gold, ranked, k) for k in (1, 5)] == pytest.approx(recalls, abs=5e-5)
    assert [ndcg_at_k(gold, ranked, k) for k in (1, 5, None)] == pytest.approx(ndcgs, abs=5e-5)
    assert mrr_at_k(gold, ranked, 5) == pytest.approx(mrr)


@pytest.mark.parametrize("measure", MEASURES)
def test_without_gold_there_is_no_number_and_a_cut_off_is_at_least_one(measure):
    assert measure([], ["a"], 1) is None
    with pytest.raises(ValueError, match="0"):
        measure(["a"], ["a"], 0)


def test_all_numbers_of_a_ranking():
    scores = ranking_scores(["a"], ["b", "a"], (1, None))
    assert scores == pytest.approx(
        {
            "recall@1": 0, "hit@1": 0, "ndcg@1": 0, "mrr@1": 0,
            "recall@all": 1, "hit@all": 1, "ndcg@all": 1 / math.log2(3), "mrr@all": 0.5,
        }
    )  # fmt: skip


def slow_numbers(gold: list[int], ranked: list[int], k: int | None) -> list[float]:
    """Section 8 of the specification: recall, hit, MRR, nDCG."""
    cut = ranked if k is None else ranked[:k]
    limit = len(ranked) if k is None else k
    places = [index for index, item in enumerate(cut) if item in gold]
    found = {cut[index] for index in places}
    dcg = sum(1 / math.log2(index + 2) for index in places)
    ideal = sum(1 / math.log2(index + 2) for index in range(min(limit, len(set(gold)))))
    mrr = 1 / (places[0] + 1) if places else 0.0
    return [len(found) / len(set(gold)), float(bool(found)), mrr, dcg / ideal if ideal else 0.0]


@given(GOLD, RANKINGS, st.one_of(st.none(), st.integers(1, 12)))
def test_equals_the_slow_reading_with_and_without_repetitions(gold, ranked, k):
    assert [measure(gold, ranked, k) for measure in MEASURES] == pytest.approx(slow_numbers(gold, ranked, k))


@given(GOLD, RANKINGS)
def test_the_form_of_vrag_rl(gold, ranked):
    gains = sum(1 / math.log2(place + 2) for place, item in enumerate(ranked) if item in gold)
    ideal = sum(1 / math.log2(place + 2) for place in range(len(gold)))
    assert ndcg(ranked, gold) == pytest.approx(gains / ideal)
    once = [item for place, item in enumerate(ranked) if item not in ranked[:place]]
    assert distinct(ranked) == once
    assert ndcg(ranked, gold, dedupe=True) == pytest.approx(ndcg(once, distinct(gold)))
