"""Texts of others in pages, tables and pictures."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from docagent_rl.eval.report.build import ReportSettings, ScoredRun
from docagent_rl.eval.report.figure import figure
from docagent_rl.eval.report.grids import Grid
from docagent_rl.eval.report.making import make_report
from docagent_rl.eval.report.markdown import markdown, plain
from docagent_rl.eval.report.terminal import rendered
from tests.eval.report.scores import scored

HOSTILE = [
    "| a | b |", "[x](http://evil.example/a)", "![x](http://evil.example/a.png)", "<script>alert(1)</script>",
    "`code`", "# head", "a\n\n# head\n|x|", "**bold**", "[red]red[/red]", "[link=http://e.example]x[/link]",
    "$\\frac{1}{0}$ $x", "_under_", "&lt;b&gt;", '" onload="x', "]]>", "\x1b[31mred\x1b[0m", "\u202egnihton",
    "\x00", "\ud83d", "http://evil.example", "www.evil.example", "mail@evil.example", "---", "1. one",
    "~~gone~~", "x" * 5000, "<!-- -->", "\\", "|\\|", "日本語",
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_in_a_page(text):
    page = markdown([Grid(text, (text, "b"), ((text, text), ("c", "d")), (text,))], None)
    lines = page.splitlines()
    assert len(lines) == 10
    cells = [line for line in lines if line.startswith("|")]
    assert len(cells) == 4
    for line in cells:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 3
    body = plain(text).replace("\\\\", "").replace("&#46;", "")
    for mark in ("<", ">", "\x1b", "\u202e", "\x00"):
        assert mark not in body
    for mark in "`*_[]#|~$":
        assert body.count(mark) == body.count(f"\\{mark}")
    assert "://" not in body.replace("\\://", "")
    assert "www." not in body
    page.encode()


@given(st.text())
def test_no_text_at_all_leaves_its_line(text):
    found = plain(text)
    assert len(found.splitlines()) <= 1
    body = found.replace("\\\\", "").replace("&#46;", "")
    assert all(body.count(mark) == body.count(f"\\{mark}") for mark in "`*_[]#|~$")


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_becomes_markup_in_a_terminal(text):
    buffer = io.StringIO()
    console = Console(file=buffer, width=12_000, force_terminal=True, color_system=None)
    console.print(rendered(Grid(text, (text, "b"), ((text, "[bold]d[/bold]"),), (text,))))
    out = buffer.getvalue()
    assert "[bold]d[/bold]" in out
    assert "\x1b[31m" not in out
    assert "\u202e" not in out


MARKED = [text for text in HOSTILE if re.search(r"[<&>$\x00-\x1f\ud800-\udfff\"\\\u202e]", text)]


@pytest.mark.parametrize("text", MARKED)
def test_no_text_becomes_markup_in_a_picture_or_stops_it(text):
    sessions = [
        scored(n, n % 2, document=f"{text}{n % 3}", labels={text: [text]}, groups=[text], agent=text)
        for n in range(6)
    ]
    run = ScoredRun(text, sessions, {"player": {"model": text}, "retriever": text, "recipe": text})
    found = make_report([run], ReportSettings(draws=20))
    root = ET.fromstring(found.picture)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "a", "image", "foreignObject"}
    assert all("onload" not in element.attrib for element in root.iter())
    assert figure([], []).startswith("<?xml")


def test_a_note_is_told_to_its_end():
    note = f"run and paper. different: {'settings, ' * 300}the end"
    assert markdown([Grid("t", ("a",), (("x" * 5000,),), (note,))], None).endswith(f"- {note}\n")


def test_ordinary_texts_stay_readable():
    assert plain("41.2 [38.0, 44.5]") == "41.2 \\[38.0, 44.5\\]"
    assert plain("Qwen2.5-VL-7B (a: b) +3.1 -") == "Qwen2.5-VL-7B (a: b) +3.1 -"
