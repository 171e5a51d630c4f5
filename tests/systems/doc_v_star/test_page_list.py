from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.systems.doc_v_star.page_list import PageList, read_page_list


@pytest.mark.parametrize(
    ("text", "pages", "strays"),
    [
        ("[3, 7]", (3, 7), 0),
        ("3, 7", (3, 7), 0),
        ("3 7", (3, 7), 0),
        (" [3,7,] \n", (3, 7), 0),
        ("[7, 3, 7]", (7, 3), 0),
        ("", (), 0),
        ("[]", (), 0),
        ("14", (14,), 0),
        ("007", (7,), 0),
        ("-3", (-3,), 0),
        ("[3, x]", (3,), 1),
        ("3-5", (), 1),
        ("3.0", (), 1),
        ("page 3", (3,), 1),
        ("[3, 7", (7,), 1),
        ("+3", (), 1),
        ("--3", (), 1),
        ("-", (), 1),
        ("٣", (), 1),
        ("²", (), 1),
        ("1e3", (), 1),
        ("NaN, inf", (), 2),
        ("9" * 12, (10**12 - 1,), 0),
        ("9" * 5000, (), 1),
        ("[[3]]", (), 1),
    ],
)
def test_lists(text, pages, strays):
    assert read_page_list(text) == PageList(pages, strays)


@given(st.lists(st.integers(-99, 9999)), st.sampled_from([", ", ",", " ", "\n"]), st.booleans())
def test_what_was_written_is_read(pages, separator, brackets):
    body = separator.join(map(str, pages))
    assert read_page_list(f"[{body}]" if brackets else body) == PageList(tuple(dict.fromkeys(pages)), 0)


@given(st.text())
def test_any_text(text):
    found = read_page_list(text)
    assert len(set(found.pages)) == len(found.pages)


def test_long_lists_are_read():
    """A reader that is not linear in the length would take minutes."""
    for text in ("1," * 200_000, "[" * 400_000, " " * 400_000, "x" * 400_000, "-" * 400_000):
        read_page_list(text)
