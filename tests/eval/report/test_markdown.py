"""Texts of others in pages and tables."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from docagent_rl.eval.report.grids import Grid
from docagent_rl.eval.report.markdown import markdown, plain
from docagent_rl.eval.report.terminal import rendered
from tests.eval.report.scores import HOSTILE

MARKS = "`*_[]#|~$"


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_in_a_page(text):
    page = markdown([Grid(text, (text, "b"), ((text, text), ("c", "d")), (text,))], None)
    assert len(page.splitlines()) == 10
    cells = [line for line in page.splitlines() if line.startswith("|")]
    assert [line.replace("\\\\", "").replace("\\|", "").count("|") for line in cells] == [3] * 4
    body = plain(text).replace("\\\\", "").replace("&#46;", "")
    assert not set(body) & set("<>\x1b\u202e\x00")
    assert "://" not in body.replace("\\://", "")
    assert "www." not in body
    page.encode()


@given(st.text() | st.sampled_from(HOSTILE))
def test_no_text_at_all_leaves_its_line(text):
    found = plain(text)
    assert len(found.splitlines()) <= 1
    body = found.replace("\\\\", "").replace("&#46;", "")
    assert all(body.count(mark) == body.count(f"\\{mark}") for mark in MARKS)


def test_no_text_becomes_markup_in_a_terminal():
    buffer = io.StringIO()
    console = Console(file=buffer, width=12_000, force_terminal=True, color_system=None)
    for text in HOSTILE:
        console.print(rendered(Grid(text, (text, "b"), ((text, "[bold]d[/bold]"),), (text,))))
    out = buffer.getvalue()
    assert out.count("[bold]d[/bold]") == len(HOSTILE)
    assert "\x1b[31m" not in out
    assert "\u202e" not in out


def test_a_note_is_told_to_its_end():
    note = f"run and paper. different: {'settings, ' * 300}the end"
    assert markdown([Grid("t", ("a",), (("x" * 5000,),), (note,))], None).endswith(f"- {note}\n")


def test_ordinary_texts_stay_readable():
    assert plain("41.2 [38.0, 44.5]") == "41.2 \\[38.0, 44.5\\]"
    assert plain("Qwen2.5-VL-7B (a: b) +3.1 -") == "Qwen2.5-VL-7B (a: b) +3.1 -"
