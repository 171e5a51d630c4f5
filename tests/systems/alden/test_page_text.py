from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.alden.page_text import cut_text


@pytest.mark.parametrize(
    ("text", "tokens", "cut"),
    [
        ("one two six", 2, "one two"),
        ("one two six", 3, "one two six"),
        ("extraordinary words", 4, "extraordinary"),
        ("extraordinary words", 3, ""),
        ("a 123 b", 3, "a 12"),
        ("a\n\n\nb c", 2, "a"),
        ("a, b", 2, "a,"),
        ("\u5e74\u5ea6\u62a5\u544a", 3, "\u5e74\u5ea6\u62a5"),
        ("a_b", 2, "a_"),
        ("", 1, ""),
        ("   ", 1, "   "),
    ],
)
def test_cuts(text, tokens, cut):
    assert cut_text(text, tokens) == cut


@given(st.text(max_size=80), st.integers(1, 30))
def test_a_cut_is_a_beginning(text, tokens):
    cut = cut_text(text, tokens)
    assert text.startswith(cut)
    assert cut_text(text, tokens + 1).startswith(cut)
    assert cut_text(cut, tokens) == cut


def test_a_megabyte():
    assert len(cut_text("word " * 200_000, 1024)) == 5 * 1024 - 1
    assert cut_text("x" * 10**6, 1024) == ""
