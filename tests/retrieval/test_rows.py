"""Rows of pages, the best of them, and the words of their texts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.retrieval.base import check_queries, top_rows
from docagent_rl.retrieval.rows import PageRows
from docagent_rl.retrieval.tokens import Stemmer, Tokenizer


def test_pages_and_rows_are_each_others():
    rows = PageRows(["a", "b"], [2, 3])
    assert list(rows) == [PageRef("a", 1), PageRef("a", 2), PageRef("b", 1), PageRef("b", 2), PageRef("b", 3)]
    assert [rows.ref(row) for row in range(len(rows))] == list(rows)
    assert rows.rows(list(rows)).tolist() == [0, 1, 2, 3, 4]
    assert (rows.span("b"), rows.span(None)) == ((2, 5), (0, 5))
    # unknown pages have no row
    assert rows.rows([PageRef("a", 3), PageRef("z", 1), PageRef("a", 2)]).tolist() == [1]
    with pytest.raises(UserError, match="'z'"):
        rows.span("z")


@settings(max_examples=60)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.5]), max_size=40), st.integers(1, 50))
def test_the_best_rows_are_those_of_a_full_sort(scores, top_k):
    ranked = [row for score, row in sorted((-score, row) for row, score in enumerate(scores) if score > 0)]
    assert top_rows(np.array(scores, dtype=np.float32), top_k).tolist() == ranked[:top_k]


def test_top_k_is_a_whole_number_from_one_and_queries_are_a_sequence_of_strings():
    for top_k in (0, 1.5, True, None):
        with pytest.raises(UserError, match="top_k"):
            check_queries(["a"], top_k)
    for queries in ("one query", [b"bytes"], [None]):
        with pytest.raises(TypeError):
            check_queries(queries, 1)


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
        (" \n\t … —", []),
    ],
)
def test_tokens(text, tokens):
    assert Tokenizer()(text) == tokens


@settings(max_examples=60)
@given(st.text())
def test_any_text_has_tokens_without_spaces(text):
    tokens = Tokenizer()(text)
    assert all(token and not any(character.isspace() for character in token) for token in tokens)


def test_stems():
    pytest.importorskip("Stemmer")
    assert Tokenizer(Stemmer.ENGLISH)("Connected connections, running") == ["connect", "connect", "run"]
