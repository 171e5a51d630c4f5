from __future__ import annotations

from types import SimpleNamespace

import pytest

from docagent_rl.generate.titles import askable, folded


def entry(title: str, page: int | None) -> SimpleNamespace:
    return SimpleNamespace(title=title, page=page)


TEXTS = {1: "SCOPE\nof the\n  manual", 2: "Notes. 12. notes", 3: "Care"}


@pytest.mark.parametrize(
    ("title", "pages", "asked"),
    [
        ("Scope  of the\tManual", [1], True),
        ("Care", [3], True),
        ("Care", [2, None, 0, 4], False),
        ("12", [2], False),
    ],
)
def test_a_title_stands_on_its_page(title, pages, asked):
    for page in pages:
        assert askable([entry(title, page)], 3, TEXTS.__getitem__) == [0] * asked


def test_a_title_that_occurs_twice_is_none_and_a_page_is_read_once():
    read = []

    def text(page: int) -> str:
        read.append(page)
        return TEXTS[page]

    titles = {"Notes": 2, "NOTES": 3, "Care": 3, "care of": 3, "manual": 1}
    entries = [entry(title, page) for title, page in titles.items()]
    assert askable(entries, 3, text) == [2, 4]
    assert sorted(read) == [1, 3]
    assert folded(" A\n b\tC ") == "a b c"
