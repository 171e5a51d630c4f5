import pytest

from docagent_rl.rewards.text import anls, edit_distance, exact_match, squad_normalise, token_recall


def test_squad_normalise():
    assert squad_normalise("The U.S. and an apple!") == "us and apple"


@pytest.mark.parametrize("text", ["\u201cthe cat\u201d", "a\u2014cat", "the\u2026 an\u00a0cat"])
def test_articles_beside_punctuation_that_stays_are_dropped(text):
    left = "".join(letter if letter.isalpha() else " " for letter in squad_normalise(text))
    assert left.split() == ["cat"]


def test_exact_match():
    assert exact_match("The Red Fox", "red fox!") == 1.0
    assert exact_match("Red Fox", "it is the red fox") == exact_match("the", "the") == 0.0


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


@pytest.mark.parametrize(
    ("one", "other", "edits"),
    [
        ("kitten", "sitting", 3),
        ("", "ab", 2),
        ("\ud800", "\U0001f600", 1),
        ("ab" * 4000, "ba" * 4000, 2),
    ],
)
def test_edit_distance(one, other, edits):
    assert edit_distance(one, other) == edit_distance(other, one) == edits
