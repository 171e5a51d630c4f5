from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.dude import dude_anls, dude_prediction
from tests.eval.metrics import slow

NA, ONE, LIST = "not-answerable", "extractive", "list/extractive"


@pytest.mark.parametrize(
    ("golds", "pred", "kind", "expected"),
    [
        (["Harbour Bridge"], ["Harbor Bridge"], ONE, 0.9286), (["abcd"], ["abxy"], ONE, 0.5),
        ([], [], NA, 1.0), ([], ["none"], NA, 0),
        (["red", "green", "blue"], ["blue", "red"], LIST, 0.6667),
        (["Lyon", "Nice"], ["Nice", "Lyon", "Metz"], LIST, 0.6667), (["Lyon", "Nice"], ["Lyons"], LIST, 0.4),
        (["Lyon", "Lyon"], ["Lyon"], LIST, 1.0), (["Lyon"], ["Lyon", "Lyon"], LIST, 0.5),
        (["cat"], ["dog" + " " * 7], ONE, 0.7),
        # what is no list, and nothing
        (["Lyon"], "Lyon", ONE, 1.0), (["a", "b"], "ab", LIST, 1.0), (["Lyon"], None, ONE, 0),
        ([""], None, NA, 1.0), (["Straße"], ["strasse"], ONE, 1 - 2 / 7),
    ],
)  # fmt: skip
def test_worked_examples(golds, pred, kind, expected):
    assert dude_anls(golds, pred, kind) == pytest.approx(expected, abs=5e-5)


def test_lists_have_a_threshold_of_their_own():
    assert dude_anls(["abcd"], ["abxy"], LIST, threshold=0.9) == 0.5
    assert dude_anls(["abcd"], ["abxy"], ONE, threshold=0.9) == 0


def test_the_harness_leaves_no_padding_to_gain_by():
    assert dude_prediction(" dog  food" + " " * 7) == ["dog food"]
    assert dude_prediction(["a", " b "]) == ["a", "b"]
    assert dude_prediction("never mind", refused=True) == [""]


def slow_similarity(gold: str, pred: str) -> float:
    edits = slow.distance(" ".join(gold.lower().split()), " ".join(pred.lower().split()))
    length = max(len(gold.upper()), len(pred.upper()))
    result = 1 - (edits / length if length else 0.0)
    return result if result >= 0.5 else 0.0


def slow_dude(golds: list[str], preds: list[str], kind: str) -> float:
    if kind == NA:
        golds, preds = golds or [""], preds or [""]
    if kind != LIST:
        pred = preds[0] if preds else ""
        return max((slow_similarity(gold, pred) for gold in golds), default=0.0)
    if not golds or not preds:
        return 0.0
    few, many = sorted((golds, preds), key=len)
    best = max(
        sum(slow_similarity(a, b) for a, b in zip(few, order, strict=True))
        for order in itertools.permutations(many, len(few))
    )
    return best / max(len(set(golds)), len(preds))


ANSWERS = st.lists(st.text("aAbß ", max_size=5) | st.text(max_size=8), max_size=4)


@given(ANSWERS, ANSWERS, st.sampled_from([NA, ONE, LIST]))
def test_equals_the_slow_reading(golds, preds, kind):
    assert dude_anls(golds, preds, kind) == pytest.approx(slow_dude(golds, preds, kind))
