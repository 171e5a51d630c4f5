from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.mp_docvqa import anls, mpdocvqa_accuracy, page_accuracy
from tests.eval.metrics import slow

NA = "not-answerable"


@pytest.mark.parametrize(
    ("golds", "pred", "kind", "similarity", "accuracy"),
    [
        (["Feb 14, 1972", "14 Feb 1972"], "feb 14 1972", "string", 0.9167, 0),
        (["Ridge Road"], "  RIDGE ROAD ", "string", 1.0, 1),
        (["Ridge Road"], "Ridge  Road", "string", 0.9091, 0),
        (["abcd"], "abxy", "string", 0.5, 0), (["abcde"], "abxyz", "string", 0, 0),
        (["none"], "none", "string", 0, 0), (["x"], "none", NA, 1, 1), (["x"], "", NA, 0, 1),
        (["x"], "NA", NA, 0, 0), (["x"], None, "string", 0, 0), (["x"], None, NA, 0, 1),
        ([""], "", "string", 0, 1), (["nine"], "none", "string", 0, 0),
    ],
)  # fmt: skip
def test_worked_examples(golds, pred, kind, similarity, accuracy):
    assert anls(golds, pred, answer_type=kind) == pytest.approx(similarity, abs=5e-5)
    assert mpdocvqa_accuracy(golds, pred, kind) == accuracy


def test_pages():
    assert [page_accuracy(2, page) for page in (2, 3, None)] == [1, 0, 0]


def slow_numbers(golds: list[str], pred: str, threshold: float, kind: str) -> tuple[float, int]:
    """Similarity and accuracy."""
    pred = pred.lower().strip()
    if kind == NA:
        return float(pred == "none"), int(pred in ("", "none"))
    if pred == "none":
        return 0, 0
    golds = [gold.lower().strip() for gold in golds]
    if pred == "":
        return 0, int("" in golds)
    best = max((1 - slow.distance(gold, pred) / max(len(gold), len(pred)) for gold in golds), default=0.0)
    return best if best >= threshold else 0, int(pred in golds)


TEXTS = (
    st.text("aAbß N ", max_size=7) | st.sampled_from(["none", "None", "NA", "n one"]) | st.text(max_size=12)
)
THRESHOLDS = st.sampled_from([0.0, 0.5, 0.75, 1.0])


@given(st.lists(TEXTS, max_size=3), TEXTS, THRESHOLDS, st.sampled_from(["string", NA]))
def test_equals_the_slow_reading(golds, pred, threshold, kind):
    similarity, accuracy = slow_numbers(golds, pred, threshold, kind)
    assert anls(golds, pred, threshold, kind) == pytest.approx(similarity)
    assert mpdocvqa_accuracy(golds, pred, kind) == accuracy
