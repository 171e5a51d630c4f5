from __future__ import annotations

import re
import string
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.alden.answer_reward import (
    REFUSAL,
    AnswerMetric,
    AnswerRule,
    ListScoring,
    as_refusal,
    char_f1,
    is_numeric,
    is_refusal,
    similarity,
    word_f1,
)

PAPER = AnswerRule(AnswerMetric.CHAR_F1, AnswerMetric.CHAR_F1)
RELEASED = AnswerRule(AnswerMetric.WORD_F1, AnswerMetric.WORD_F1, polar_exact=True)
TEXT = st.text(alphabet="aebt 12.-$\u00e9\u5e74", max_size=20)


@pytest.mark.parametrize(
    ("prediction", "reference", "words", "characters"),
    [
        ("12.4 million", "$12.4 million USD", 0.8, 0.8696),
        ("42", "24", 0.0, 1.0),
        ("the Blue.", "blue", 1.0, 1.0),
        ("", "blue", 0.0, 0.0),
        ("", "", 0.0, 0.0),
        ("blue blue", "blue", 2 / 3, 2 / 3),
        ("\u5e74\u5ea6", "\u5e74\u62a5", 0.5, 0.5),
    ],
)
def test_values(prediction, reference, words, characters):
    assert word_f1(prediction, reference) == pytest.approx(words, abs=5e-5)
    assert char_f1(prediction, reference) == pytest.approx(characters, abs=5e-5)


def slow(prediction, reference, units):
    """Precision, recall and their harmonic mean, from the definition."""

    def normal(text):
        bare = "".join(c for c in text.lower() if c not in string.punctuation)
        return " ".join(w for w in bare.split() if w not in ("a", "an", "the"))

    mine, wanted = Counter(units(normal(prediction))), Counter(units(normal(reference)))
    common = sum(min(mine[unit], wanted[unit]) for unit in mine)
    if not common:
        return 0.0
    p, r = common / sum(mine.values()), common / sum(wanted.values())
    return 2 * p * r / (p + r)


@given(TEXT, TEXT)
def test_against_the_slow_version(prediction, reference):
    assert char_f1(prediction, reference) == pytest.approx(
        slow(prediction, reference, lambda text: text.replace(" ", ""))
    )
    assert word_f1(prediction, reference) == pytest.approx(
        slow(prediction, reference, lambda text: re.sub("(\u5e74)", r" \1 ", text).split())
    )


@given(TEXT, TEXT, st.sampled_from(AnswerMetric))
def test_bounds_and_symmetry(prediction, reference, metric):
    value = similarity(metric, prediction, reference)
    assert 0 <= value <= 1
    assert value == pytest.approx(similarity(metric, reference, prediction))


@given(TEXT, st.lists(TEXT, max_size=4), TEXT)
def test_more_references_never_score_less(prediction, references, another):
    for rule in (PAPER, RELEASED):
        assert rule.score(prediction, [*references, another]) >= rule.score(prediction, references)


def test_no_reference_scores_nothing():
    assert PAPER.score("blue", []) == 0


@pytest.mark.parametrize(
    ("prediction", "reference", "score"),
    [
        ("yes", "Yes.", 1.0),
        ("yes it is", "yes", 0.0),
        ("no", "no change", 0.0),
        ("noanswer", "none", 0.0),
        ("yes it is", "it is so", 2 * 2 / 6),
    ],
)
def test_yes_and_no_are_exact_in_the_release(prediction, reference, score):
    assert RELEASED.score(prediction, [reference]) == pytest.approx(score)
    assert AnswerRule(AnswerMetric.WORD_F1, AnswerMetric.WORD_F1).score(prediction, [reference]) >= score


def test_numeric_references_have_a_metric_of_their_own():
    rule = AnswerRule(AnswerMetric.CHAR_F1, AnswerMetric.WORD_F1)
    assert rule.score("42", ["24"]) == 0
    assert rule.score("enlist", ["listen"]) == 1
    assert is_numeric("March 1998")
    assert not is_numeric("March")


def test_items_of_a_list():
    joined, items = PAPER, AnswerRule(AnswerMetric.CHAR_F1, AnswerMetric.CHAR_F1, ListScoring.ITEMS)
    assert joined.score("Ann; Bob", ["Bob; Ann"]) == 1
    assert items.score("the Ann;Bob", ["Bob; Ann"]) == 1
    assert items.score("Ann", ["Bob; Ann"]) == pytest.approx(2 / 3)
    assert items.score("Ann; Ann; Cid", ["Bob; Ann"]) == pytest.approx(1 / 2)
    assert items.score("Bo; An", ["Bob; Ann"]) == 0
    # one item is no list
    assert items.score("Anna", ["Ann;"]) == joined.score("Anna", ["Ann;"]) > 0


@pytest.mark.parametrize(
    ("text", "refusal"),
    [
        (REFUSAL, True),
        ("the problem is  NOT answerable.", True),
        ("I fear that the problem is not answerable here", True),
        ("not answerable", False),
        ("", False),
    ],
)
def test_refusals(text, refusal):
    assert is_refusal(text) is refusal


def test_the_canonical_refusal_is_put_into_its_own_words():
    assert as_refusal(NOT_ANSWERABLE) == as_refusal("not answerable.") == REFUSAL
    assert as_refusal("blue") == "blue"
