from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.eval.metrics.tags import first_tag, last_tag


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("<a>1</a><a>2</a>", "1", "2"), ("<a>12 <a>13</a>", "12 <a>13", "13"), ("<a>1</a> <a>2", "1", "1"),
        ("</a><a>", None, None), ("<a>", None, None), ("", None, None), ("<a>\n</a>", "\n", "\n"),
        ("<a></a>", "", ""),
        ("<A>1</A>", None, None), ("</a> <a>1</a>", "1", "1"),
    ],
)  # fmt: skip
def test_first_and_last(text, first, last):
    assert (first_tag(text, "a"), last_tag(text, "a")) == (first, last)


@given(st.lists(st.sampled_from(["<a>", "</a>", "x", "\n"]), max_size=10).map("".join))
def test_against_regular_expressions(text):
    found = re.search(r"<a>(.*?)</a>", text, re.DOTALL)
    assert first_tag(text, "a") == (found and found[1])
    found = re.search(r".*<a>(.*?)</a>(?!.*</a>)", text, re.DOTALL)
    assert last_tag(text, "a") == (found and found[1])


def test_many_open_tags_take_no_time():
    assert first_tag("<a>" * 500_000, "a") is last_tag("<a>" * 500_000, "a") is None
