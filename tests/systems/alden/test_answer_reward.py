from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.systems.alden.answer_reward import (
    REFUSAL,
    AnswerMetric,
    AnswerRule,
    ListScoring,
    as_refusal,
    char_f1,
    is_refusal,
    word_f1,
)
from tests.players import formulas

CHARACTERS, WORDS = AnswerMetric.CHAR_F1, AnswerMetric.WORD_F1
PAPER = AnswerRule(CHARACTERS, CHARACTERS)
RELEASED = AnswerRule(WORDS, WORDS, polar_exact=True)
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


@settings(max_examples=50)
@given(TEXT, TEXT, TEXT)
def test_against_the_slow_version(prediction, one, other):
    characters = [formulas.char_f1(prediction, text) for text in (one, other)]
    assert char_f1(prediction, one) == pytest.approx(characters[0])
    assert PAPER.score(prediction, [one, other]) == pytest.approx(max(characters))
    assert PAPER.score(prediction, []) == 0
    spaced = [text.replace("\u5e74", " \u5e74 ") for text in (prediction, one)]
    assert word_f1(prediction, one) == pytest.approx(formulas.word_f1(*spaced))


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
    assert AnswerRule(WORDS, WORDS).score(prediction, [reference]) >= score


def test_numeric_references_have_a_metric_of_their_own():
    rule = AnswerRule(CHARACTERS, WORDS)
    assert [rule.score("42", ["24"]), rule.score("enlist", ["listen"])] == [0, 1]
    assert rule.score("1998 March", ["March 1989"]) == 0.5


def test_items_of_a_list():
    joined, items = PAPER, AnswerRule(CHARACTERS, CHARACTERS, ListScoring.ITEMS)
    assert joined.score("Ann; Bob", ["Bob; Ann"]) == 1
    answers = ["the Ann;Bob", "Ann", "Ann; Ann; Cid", "Bo; An"]
    assert [items.score(text, ["Bob; Ann"]) for text in answers] == pytest.approx([1, 2 / 3, 1 / 2, 0])
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
