import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.retrieval import navigation, ndcg, recall

GOLD = {"K3", "K4", "M1"}


def slow_ndcg(shown: list, gold: list) -> float:
    """The sums of the definition, term by term, with relevances as a vector."""
    seen, relevances = [], []
    for page in shown:
        if page not in seen:
            seen.append(page)
            relevances.append(1 if page in gold else 0)
    total = 0.0
    for index in range(len(relevances)):
        total += (2 ** relevances[index] - 1) / math.log(index + 2, 2)
    ideal = 0.0
    for index in range(len(set(gold))):
        ideal += 1 / math.log(index + 2, 2)
    return total / ideal if ideal else 0.0


def test_worked_example():
    assert ndcg(["M7", "K4", "M1", "Q2"], GOLD) == pytest.approx(0.530721, abs=1e-6)
    assert ndcg(["K3", "M7"], GOLD) == pytest.approx(0.469279, abs=1e-6)


@pytest.mark.parametrize(
    ("shown", "gold", "value"),
    [
        (["K3", "M1", "K4"], GOLD, 1.0),
        ([], GOLD, 0.0),
        (["a"], [], 0.0),
        ([], [], 0.0),
        (["a", "b"], GOLD, 0.0),
        # duplicated gold pages do not inflate the ideal
        (["K3"], ["K3", "K3"], 1.0),
        # a repeated page takes no rank and pays once
        (["K3", "K3", "K4", "K3"], ["K3", "K4"], 1.0),
        # the ideal covers gold pages that were never shown
        (["K3"], GOLD, 1 / (1 + 1 / math.log2(3) + 0.5)),
    ],
)
def test_cases(shown, gold, value):
    assert ndcg(shown, gold) == pytest.approx(value)


pages = st.lists(st.integers(0, 12), max_size=12)


@given(pages, pages)
def test_equals_the_slow_version_and_is_bounded(shown, gold):
    value = ndcg(shown, gold)
    assert value == pytest.approx(slow_ndcg(shown, gold))
    assert 0 <= value <= 1 + 1e-12


def test_recall():
    assert recall(["K3", "x", "K3"], GOLD) == pytest.approx(1 / 3)
    assert recall(GOLD, GOLD) == 1
    assert recall(["x"], []) is None


@pytest.mark.parametrize(
    ("gold", "shown", "recall", "found", "f1"),
    [
        ({5, 7}, {5, 6}, 0.5, 0.5, 0.5),
        ({40}, {39, 40}, 1.0, 0.5, 0.6667),
        ({3}, set(), 0, 0, 0),
        ({2, 4, 6}, [4, 4, 6, 9], 0.6667, 0.6667, 0.6667),
    ],
)
def test_navigation(gold, shown, recall, found, f1):
    expected = {"recall": recall, "precision": found, "f1": f1}
    assert navigation(shown, gold) == pytest.approx(expected, abs=5e-5)


def test_navigation_without_evidence_is_no_number():
    assert navigation({1}, set()) == {}


def test_the_ideal_runs_over_all_gold_pages_however_many():
    gold = list(range(12))
    assert ndcg(gold, gold) == pytest.approx(1.0)
    assert ndcg([0], gold) == pytest.approx(
        1 / sum(1 / math.log2(rank + 1) for rank in range(1, 13))
    )
