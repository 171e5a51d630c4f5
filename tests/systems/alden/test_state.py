"""Boxes in answers, and cuts of page texts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.systems.alden.actions import last_boxed
from docagent_rl.systems.alden.state import cut_text
from tests.players.readers import last_box


def content(text):
    span = last_boxed(text)
    return None if span is None else text[slice(*span)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"The final answer is \[ \boxed{ Figure 20 } \].", "Figure 20"),
        (r"\boxed{a} and \boxed{b}", "b"),
        (r"\boxed{a_{1}^{2}}", "a_{1}^{2}"),
        (r"\boxed{ { {a} } }", "a"),
        (r"\boxed{  }", ""),
        (r"\boxed{{}}", ""),
        (r"\boxed{a \} b}", r"a \} b"),
        (r"\boxed{a} \boxed{b", "a"),
        (r"\boxed{a \boxed{b}", "b"),
        (r"\boxed{a", None),
        (r"\boxed a", None),
        (r"\\boxed{a}", None),
        ("", None),
    ],
)
def test_boxes(text, found):
    assert content(text) == found


@settings(max_examples=50)
@given(st.lists(st.sampled_from([r"\boxed{", "{", "}", "a", " ", "b"])).map("".join))
def test_boxes_against_an_independent_reading(text):
    def bare(found):
        return None if found is None else found.replace(" ", "").replace("{", "").replace("}", "")

    # what is outside of matched braces is the same in both readings
    assert bare(content(text)) == bare(last_box(text))


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("ab \\boxed{ { c d} }", (13, 16)),
        (r"\boxed{" * 20_000, None),
        (r"\boxed{}" * 20_000, (159_999, 159_999)),
    ],
)
def test_places_of_boxes(text, span):
    """Parsing takes linear time; otherwise the long texts would take minutes."""
    assert last_boxed(text) == span


@pytest.mark.parametrize(
    ("text", "tokens", "cut"),
    [
        ("one two six", 2, "one two"),
        ("one two six", 3, "one two six"),
        ("extraordinary words", 3, ""),
        ("a 123 b", 3, "a 12"),
        ("a\n\n\nb c", 2, "a"),
        ("\u5e74\u5ea6\u62a5\u544a", 3, "\u5e74\u5ea6\u62a5"),
        ("   ", 1, "   "),
        ("x" * 10**5, 1024, ""),
    ],
)
def test_cuts(text, tokens, cut):
    assert cut_text(text, tokens) == cut


@settings(max_examples=20)
@given(st.text(max_size=80), st.integers(1, 30))
def test_a_cut_is_a_beginning(text, tokens):
    cut = cut_text(text, tokens)
    assert text.startswith(cut)
    assert cut_text(text, tokens + 1).startswith(cut)
    assert cut_text(cut, tokens) == cut
