from __future__ import annotations

import importlib.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.errors import UserError
from docagent_rl.retrieval.tokens import Stemmer, Tokenizer


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cat, the CAT!", ["the", "cat", "the", "cat"]),
        ("Table 3: 42.5 %", ["table", "3", "42", "5"]),
        ("Größe naïve Ünïcode", ["größe", "naïve", "ünïcode"]),
        ("\N{LATIN SMALL LIGATURE FI}gure \N{FULLWIDTH DIGIT ONE}", ["figure", "1"]),
        ("co\N{SOFT HYPHEN}operate", ["cooperate"]),
        ("维护 Debian 软件", ["维", "护", "debian", "软", "件"]),
        ("テスト2回", ["テ", "ス", "ト", "2", "回"]),
        ("snake_case", ["snake_case"]),
        (" \n\t … —", []),
    ],
)
def test_tokens(text, tokens):
    assert Tokenizer()(text) == tokens


@given(st.text())
def test_any_text_has_lower_case_tokens_without_spaces(text):
    tokens = Tokenizer()(text)
    assert all(token and not any(character.isspace() for character in token) for token in tokens)


@pytest.mark.skipif(importlib.util.find_spec("Stemmer") is not None, reason="PyStemmer is installed")
def test_a_missing_stemmer_says_what_to_install():
    with pytest.raises(UserError, match="PyStemmer"):
        Tokenizer(Stemmer.ENGLISH)


def test_stems():
    pytest.importorskip("Stemmer")
    assert Tokenizer(Stemmer.ENGLISH)("Connected connections, running") == ["connect", "connect", "run"]
