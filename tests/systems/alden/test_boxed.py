from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.alden.boxed import last_boxed


def content(text):
    span = last_boxed(text)
    return None if span is None else text[slice(*span)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (r"\boxed{42}", "42"),
        (r"The final answer is \[ \boxed{ Figure 20 } \].", "Figure 20"),
        (r"\boxed{a} and \boxed{b}", "b"),
        (r"\boxed{a_{1}^{2}}", "a_{1}^{2}"),
        (r"\boxed{{a}}", "a"),
        (r"\boxed{ { {a} } }", "a"),
        (r"\boxed{{a}{b}}", "{a}{b}"),
        (r"\boxed{\boxed{a}}", "a"),
        (r"\boxed{}", ""),
        (r"\boxed{  }", ""),
        (r"\boxed{{}}", ""),
        (r"\boxed{a \} b}", r"a \} b"),
        (r"\boxed{\{}", r"\{"),
        (r"\boxed{a} \boxed{b", "a"),
        (r"\boxed{a \boxed{b}", "b"),
        (r"} \boxed{a} }", "a"),
        (r"{ \boxed{a}", "a"),
        (r"\boxed{\$12,000 or both}", r"\$12,000 or both"),
        (r"\boxed{line" + "\n" + "two}", "line\ntwo"),
        (r"\boxed{a", None),
        (r"\boxed a", None),
        (r"boxed{a}", None),
        (r"\\boxed{a}", None),
        ("", None),
        ("42", None),
    ],
)
def test_boxes(text, found):
    assert content(text) == found


def slow(text):
    """The same by trying every box from the last on, one character at a time."""
    for start in range(len(text) - 1, -1, -1):
        if not text.startswith(r"\boxed{", start) or (start and text[start - 1] == "\\"):
            continue
        depth, at = 1, start + len(r"\boxed{")
        while at < len(text):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                return text[start + len(r"\boxed{") : at]
            at += 1
    return None


@given(st.lists(st.sampled_from([r"\boxed{", "{", "}", "a", " ", "b"])).map("".join))
def test_against_an_independent_reading(text):
    def bare(found):
        return None if found is None else found.replace(" ", "").replace("{", "").replace("}", "")

    # what is outside of matched braces is the same in both readings
    assert bare(content(text)) == bare(slow(text))


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (r"\boxed{" * 150_000, None),
        ("{" * 10**6, None),
        ("}" * 10**6, None),
        (r"\boxed{}" * 120_000, (959_999, 959_999)),
    ],
)
def test_a_megabyte(text, span):
    assert last_boxed(text) == span


@given(st.text(alphabet="\\boxed{} a"))
def test_spans_lie_in_the_text(text):
    span = last_boxed(text)
    if span is not None:
        assert 0 <= span[0] <= span[1] <= len(text)
        assert content(text) == content(text).strip()
