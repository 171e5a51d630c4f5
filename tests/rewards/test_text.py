from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.text import anls, edit_distance, squad_normalise, token_recall


def test_squad_normalise():
    assert squad_normalise("The U.S. and an apple!") == "us and apple"


@pytest.mark.parametrize("text", ["\u201cthe cat\u201d", "a\u2014cat", "the\u2026 an\u00a0cat"])
def test_articles_beside_punctuation_that_stays_are_dropped(text):
    left = "".join(letter if letter.isalpha() else " " for letter in squad_normalise(text))
    assert left.split() == ["cat"]


def test_token_recall():
    assert token_recall("red red fox", "the red fox") == pytest.approx(2 / 3)
    assert token_recall("fox", "a fox, a hen") == 1
    assert token_recall("the", "fox") == 0


@pytest.mark.parametrize(
    ("reference", "prediction", "value"),
    [
        ("Lake Ontario", "lake ontario ", 1.0),
        ("Lake Ontario", "Lake Ontaro", 1 - 1 / 12),
        ("abcd", "abxy", 0.5),
        ("abcd", "ab", 0.5),
        ("abcd", "axyz", 0.0),
        ("abc", "", 0.0),
        ("", "", 0.0),
        ("ab", "ab" + "c" * 1_000_000, 0.0),
    ],
)
def test_anls(reference, prediction, value):
    assert anls(reference, prediction) == pytest.approx(value)


def rows(a: str, b: str) -> int:
    """The distance from the table of all prefixes, row by row."""
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, start=1):
        diagonal, row[0] = row[0], i
        for j, right in enumerate(b, start=1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (left != right))
    return row[-1]


ANY = st.text(st.characters(exclude_categories=()), max_size=12)
"""Of all planes, lone surrogates too."""


@given(st.one_of(st.tuples(st.text("abc", max_size=9), st.text("abc", max_size=9)), st.tuples(ANY, ANY)))
def test_edit_distance_is_that_of_the_table(pair):
    a, b = pair
    assert edit_distance(a, b) == rows(a, b) == edit_distance(b, a)


@given(st.text("abcd", min_size=60, max_size=150), st.lists(st.integers(0, 149), max_size=6))
def test_edit_distance_of_texts_longer_than_a_machine_word(a, places):
    changed = list(a)
    for place in places:
        changed[place % len(changed)] = "x"
    b = "".join(changed)
    assert edit_distance(a, b) == rows(a, b)


def test_edit_distance_of_a_long_answer():
    assert edit_distance("ab" * 4000, "ba" * 4000) == 2
