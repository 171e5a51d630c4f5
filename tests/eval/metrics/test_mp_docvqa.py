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
        (["none"], "none", "string", 0, 0), (["Ridge Road"], "", "string", 0, 0),
        (["x"], "none", NA, 1, 1), (["x"], "", NA, 0, 1), (["x"], "NA", NA, 0, 0),
        # further edges of the same rules
        (["None"], " NONE ", "string", 0, 0), (["x"], None, "string", 0, 0), (["x"], None, NA, 0, 1),
        ([], "x", "string", 0, 0), ([""], "", "string", 0, 1), (["x", "x"], "x", "string", 1, 1),
        (["Müller"], "MÜLLER", "string", 1, 1), (["nine"], "none", "string", 0, 0),
    ],
)  # fmt: skip
def test_worked_examples(golds, pred, kind, similarity, accuracy):
    assert anls(golds, pred, answer_type=kind) == pytest.approx(similarity, abs=5e-5)
    assert mpdocvqa_accuracy(golds, pred, kind) == accuracy


def test_pages():
    assert [page_accuracy(2, page) for page in (2, 3, None)] == [1, 0, 0]


def test_the_threshold_can_be_changed():
    assert anls(["abcd"], "abxy", threshold=0.51) == 0
    assert anls(["abcde"], "abxyz", threshold=0.3) == pytest.approx(0.4)


def slow_anls(golds: list[str], pred: str, threshold: float, kind: str) -> float:
    pred = pred.lower().strip()
    if pred == "":
        return 0
    if kind == NA:
        return 1 if pred == "none" else 0
    if pred == "none":
        return 0
    best = 0.0
    for gold in golds:
        gold = gold.lower().strip()
        best = max(best, 1 - slow.distance(gold, pred) / max(len(gold), len(pred)))
    return best if best >= threshold else 0


TEXTS = st.one_of(st.text("aAbß N ", max_size=7), st.sampled_from(["none", "None", "NA", "n one"]))
KINDS = st.sampled_from(["string", NA])


@given(st.lists(TEXTS, max_size=3), TEXTS, st.sampled_from([0.0, 0.5, 0.75, 1.0]), KINDS)
def test_equals_the_slow_reading(golds, pred, threshold, kind):
    assert anls(golds, pred, threshold, kind) == pytest.approx(slow_anls(golds, pred, threshold, kind))


def slow_accuracy(golds: list[str], pred: str, kind: str) -> int:
    pred = pred.lower().strip()
    if kind == NA:
        return 1 if pred in ("", "none") else 0
    if pred == "none":
        return 0
    for gold in golds:
        if gold.lower().strip() == pred:
            return 1
    return 0


@given(st.lists(TEXTS, max_size=3), TEXTS, KINDS)
def test_accuracy_equals_the_slow_reading(golds, pred, kind):
    assert mpdocvqa_accuracy(golds, pred, kind) == slow_accuracy(golds, pred, kind)


@given(st.lists(st.text(max_size=12), max_size=3), st.text(max_size=12), KINDS)
def test_bounds_and_what_is_equal(golds, pred, kind):
    similarity, accuracy = anls(golds, pred, answer_type=kind), mpdocvqa_accuracy(golds, pred, kind)
    assert 0 <= similarity <= 1
    if accuracy and pred.strip() and kind == "string":
        assert similarity == 1
