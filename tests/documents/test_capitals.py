"""Headings in capitals, numbered headings by their font alone, and rows of tables that are none."""

from __future__ import annotations

import pytest

from docagent_rl.documents.contents import table_of_contents
from docagent_rl.documents.typography import MEASURED, Line, Style

SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "SEE ALSO"]


def line(text, left=0.2, *, size=10.0, font="Times-Roman", bold=False, top=0.1):
    return Line(text, Style(size, font, bold, 700.0), (left, top, 0.9, top + 0.01))


def found(pages):
    texts = {page: "\n".join(each.text for each in lines) for page, lines in pages.items()}
    return [
        (h.level, h.title, h.page) for h in table_of_contents((), texts, typography=pages, first_lines=False)
    ]


def manual(heading, *more):
    """A manual page on two pages, its headings as `heading` sets them."""
    prose = [line(f"what the command does, line {row} of it") for row in range(12)]
    half = len(SECTIONS) // 2
    return {
        page: [each for name in names for each in (heading(name), *more, *prose)]
        for page, names in enumerate((SECTIONS[:half], SECTIONS[half:]), start=1)
    }


@pytest.mark.parametrize(("size", "bold"), [(10.9, True), (10.0, True), (10.0, False)])
def test_a_manual_page_has_its_capital_headings(size, bold):
    pages = manual(lambda name: line(name, 0.12, size=size, font="Times-Bold", bold=bold))
    assert [title for _, title, _ in found(pages)] == SECTIONS


def test_headings_of_their_font_hang_out_below_them():
    under = line("Ways to say it", 0.15, font="Times-Bold", bold=True)
    inside = line("Not This Word", 0.2, font="Times-Bold", bold=True)
    levels = [level for level, _, _ in found(manual(lambda name: bold_heading(name), under, inside))]
    assert levels == [1, 2] * len(SECTIONS)


def bold_heading(name):
    return line(name, 0.12, size=10.9, font="Times-Bold", bold=True)


def test_words_in_capitals_within_the_text_are_none():
    pages = manual(bold_heading, line("EAGAIN", 0.2, font="Times-Bold", bold=True))
    assert {title for _, title, _ in found(pages)} == set(SECTIONS)


def test_a_scan_needs_names_that_manual_pages_have():
    def measured(name):
        return line(name, 0.12, font=MEASURED)

    assert [title for _, title, _ in found(manual(measured))] == SECTIONS
    forms = manual(lambda name: measured(f"FORM {name}"))
    assert found(forms) == []


NUMBERED = ["1. Introduction", "2. Methods", "2.1. Data", "3. Results"]


@pytest.mark.parametrize("font", ["CMB10", "Times-Roman"])
def test_numbered_headings_of_an_article_by_their_font_or_where_print_tells_nothing(font):
    """Every letter is bold by its flags, as in some articles; then all print is one."""
    prose = [line(f"a sentence of the article, {row}", bold=True) for row in range(20)]
    pages = {
        page: [line(title, font=font, bold=True), *prose] for page, title in enumerate(NUMBERED, start=1)
    }
    assert [title for _, title, _ in found(pages)] == NUMBERED


def test_steps_in_the_text_are_no_headings_where_print_stands_out():
    prose = [line(f"a sentence, {row}") for row in range(10)]
    steps = [line("1. Open the box"), line("2. Close the box"), line("3. Go")]
    pages = {
        page: [line(title, font="CMB10"), *prose, *steps] for page, title in enumerate(NUMBERED, start=1)
    }
    assert [title for _, title, _ in found(pages)] == NUMBERED
