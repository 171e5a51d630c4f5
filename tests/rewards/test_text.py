from __future__ import annotations

import functools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.rewards.text import anls, edit_distance, squad_normalise, token_recall, tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The  Red-Fox, inc.", ["red", "fox", "inc"]),
        ("$1,234.50", ["1234.5"]),
        ("1,234,567", ["1234567"]),
        ("12 %", ["12"]),
        ("12 percent", ["12"]),
        ("-5.0 degrees", ["-5", "degrees"]),
        ("\u22125", ["-5"]),
        ("007", ["7"]),
        ("Three of twelve", ["3", "of", "12"]),
        ("5 million", ["5000000"]),
        ("$1.5 billion", ["1500000000"]),
        ("3-5", ["3", "5"]),
        ("v1.2 in 2020.", ["v1", "2", "in", "2020"]),
        ("1,23", ["1", "23"]),
        ("don't", ["dont"]),
        ("A", ["a"]),
        ("\uff11\uff12", ["12"]),
        ("-0", ["0"]),
        ("?!", []),
        ("snake_case", ["snake", "case"]),
    ],
)
def test_tokens(text, expected):
    assert tokens(text) == expected


@given(st.text(max_size=100))
def test_any_text_gives_tokens_without_spaces(text):
    assert all(token == "".join(token.split()) != "" for token in tokens(text))


@pytest.mark.parametrize(
    "unit", ["1,111", ",111", "1", "9.", "1.1", "a1", "-", "million ", "1 million ", "\u0661"]
)
def test_a_long_answer_is_read_in_linear_time(unit):
    began = time.process_time()
    tokens(unit * (300_000 // len(unit)))
    tokens(unit * (300_000 // len(unit)) + "x")
    assert time.process_time() - began < 10


def test_squad_normalise():
    assert squad_normalise("The U.S. and an apple!") == "us and apple"


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
        ("abcd", "axyz", 0.0),
        ("abc", "", 0.0),
        ("", "", 0.0),
        ("ab", "ab" + "c" * 1_000_000, 0.0),
    ],
)
def test_anls(reference, prediction, value):
    assert anls(reference, prediction) == pytest.approx(value)


@given(st.text("abc", max_size=8), st.text("abc", max_size=8))
def test_edit_distance_equals_the_recursive_definition(a, b):
    @functools.cache
    def slow(i, j):
        if i == 0 or j == 0:
            return i + j
        return min(slow(i - 1, j) + 1, slow(i, j - 1) + 1, slow(i - 1, j - 1) + (a[i - 1] != b[j - 1]))

    assert edit_distance(a, b) == slow(len(a), len(b))
