from __future__ import annotations

from dataclasses import dataclass

import pytest

from docagent_rl.generate.titles import askable, folded


@dataclass
class Entry:
    title: str
    page: int | None


TEXTS = {1: "SCOPE\nof the\n  manual", 2: "Notes. 12. notes", 3: "Care"}


@pytest.mark.parametrize(
    ("entry", "asked"),
    [
        (Entry("Scope  of the\tManual", 1), True),
        (Entry("Care", 3), True),
        (Entry("Care", 2), False),
        (Entry("12", 2), False),
        (Entry("Care", None), False),
        (Entry("Care", 0), False),
        (Entry("Care", 4), False),
    ],
)
def test_a_title_stands_on_its_page(entry, asked):
    assert askable([entry], 3, TEXTS.__getitem__) == [0] * asked


def test_a_title_that_occurs_twice_is_none_and_a_page_is_read_once():
    read = []

    def text(page: int) -> str:
        read.append(page)
        return TEXTS[page]

    entries = [
        Entry("Notes", 2),
        Entry("NOTES", 3),
        Entry("Care", 3),
        Entry("care of", 3),
        Entry("manual", 1),
    ]
    assert askable(entries, 3, text) == [2, 4]
    assert sorted(read) == [1, 3]


def test_case_and_white_space_are_put_aside():
    assert folded(" A\n b\tC ") == "a b c"
