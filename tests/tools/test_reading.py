"""Figures of a file of a few lines, compared with figures by hand."""

import pytest

from tools.reading import Reading, beside

SOURCE = '''"""A module."""

# why
LIMIT = 3
"""The limit of something."""


def total(values):  # behind code
    """Return a sum."""
    low, high = 0, 9

    return sum(value for value in values if low < value < high)


def _hidden():
    first, second = total([1]), 2
    return [first] * second
'''


@pytest.fixture
def reading():
    found = Reading()
    found.add(SOURCE)
    return found


def test_counts_leave_docstrings_and_comments_out(reading):
    assert reading.lines == 17
    assert reading.code == 7
    assert reading.comments == 1
    assert reading.statements == 7
    assert reading.pairs == 2
    assert reading.comprehensions == 1
    assert reading.public == 1


def test_figures_are_by_line_of_code_or_by_line(reading):
    figures = reading.figures()
    assert figures["statements per line of code"] == 1
    assert figures["`a, b = x, y` per 1,000 lines"] == pytest.approx(2000 / 7)
    assert figures["comments %"] == pytest.approx(100 / 17)
    assert figures["lines over 100 %"] == 0


def test_an_empty_folder_has_figures():
    assert set(Reading().figures().values()) == {0.0}


def test_other_projects_stand_beside():
    table = beside(Reading(), {"comments %": {"verl": 11}, "mean line": {"TRL": 50}})
    assert [column.header for column in table.columns] == ["", "here", "verl", "TRL"]
    rows = {
        title: cells
        for title, *cells in zip(*(column.cells for column in table.columns), strict=True)
    }
    assert rows["comments %"] == ["0.00", "11", ""]
