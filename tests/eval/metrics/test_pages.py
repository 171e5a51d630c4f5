from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.pages import page_f1, page_numbers, page_precision, page_recall

PAGES = st.sets(st.integers(1, 6), max_size=5)


@pytest.mark.parametrize(
    ("gold", "pred", "recall", "precision", "f1"),
    [
        ({5, 7}, {5, 6}, 0.5, 0.5, 0.5), ({40}, {39, 40}, 1.0, 0.5, 0.6667), ({3}, set(), 0, 0, 0),
        ({2, 4, 6}, [4, 4, 6, 9], 0.6667, 0.6667, 0.6667), (set(), {1}, None, None, None),
        (set(), set(), None, None, None), ({("a", 1)}, {("b", 1)}, 0, 0, 0),
    ],
)  # fmt: skip
def test_worked_examples(gold, pred, recall, precision, f1):
    found = page_recall(gold, pred), page_precision(gold, pred), page_f1(gold, pred)
    assert found == pytest.approx((recall, precision, f1), abs=5e-5)


@given(PAGES, st.lists(st.integers(1, 6), max_size=6))
def test_equals_the_slow_reading(gold, pred):
    """ALDEN, Eq. 9 to 11, counted page by page."""
    found = page_numbers(gold, pred)
    assert found == {
        "recall": page_recall(gold, pred),
        "precision": page_precision(gold, pred),
        "f1": page_f1(gold, pred),
    }
    if not gold:
        assert set(found.values()) == {None}
        return
    distinct = [page for place, page in enumerate(pred) if page not in pred[:place]]
    both = sum(page in gold for page in distinct)
    recall, precision = both / len(gold), both / len(distinct) if distinct else 0.0
    f1 = 2 * precision * recall / (precision + recall) if both else 0.0
    assert found == pytest.approx({"recall": recall, "precision": precision, "f1": f1})
