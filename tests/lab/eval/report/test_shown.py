"""Texts of documents and models in pages and tables."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from docagent_rl.lab.eval.report.grid import TextTable, plain_cell, rendered, tables_markdown
from tests.lab.eval.report.scores import HOSTILE

MARKS = "`*_[]#|~$"


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_in_a_page(text):
    page = tables_markdown([TextTable(text, (text, "b"), ((text, text), ("c", "d")), (text,))])
    assert len(page.splitlines()) == 10
    cells = [line for line in page.splitlines() if line.startswith("|")]
    assert [line.replace("\\\\", "").replace("\\|", "").count("|") for line in cells] == [3] * 4
    body = plain_cell(text).replace("\\\\", "").replace("&#46;", "")
    assert not set(body) & set("<>\x1b\u202e\x00")
    assert "://" not in body.replace("\\://", "")
    assert "www." not in body
    page.encode()


@given(st.text() | st.sampled_from(HOSTILE))
def test_no_text_at_all_leaves_its_line(text):
    found = plain_cell(text)
    assert len(found.splitlines()) <= 1
    body = found.replace("\\\\", "").replace("&#46;", "")
    assert all(body.count(mark) == body.count(f"\\{mark}") for mark in MARKS)


def test_no_text_becomes_markup_in_a_terminal():
    buffer = io.StringIO()
    console = Console(file=buffer, width=12_000, force_terminal=True, color_system=None)
    for text in HOSTILE:
        console.print(rendered(TextTable(text, (text, "b"), ((text, "[bold]d[/bold]"),), (text,))))
    out = buffer.getvalue()
    assert out.count("[bold]d[/bold]") == len(HOSTILE)
    assert "\x1b[31m" not in out
    assert "\u202e" not in out
