"""Texts of others in pages, tables and pictures, and what is drawn."""

from __future__ import annotations

import io
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from docagent_rl.lab.eval.report.benchmark import ReportSettings
from docagent_rl.lab.eval.report.figure import figure
from docagent_rl.lab.eval.report.grid import Grid, markdown, plain, rendered
from docagent_rl.lab.eval.report.report import PICTURE, make_report
from docagent_rl.lab.eval.report.runs import ScoredRun
from docagent_rl.lab.eval.scoring.experts import Author
from tests.lab.eval.report.scores import HOSTILE, OVERALL, over_three, scored, told

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


FEW = ReportSettings(draws=20)
MARKED = [text for text in HOSTILE if re.search(r"[<&>$\x00-\x1f\ud800-\udfff\"\\\u202e]", text)]


def slides(by="judge-1", number=8):
    """Trajectories of VRAG-RL over SlideVQA, whose paper prints two lines, and over nothing else."""
    for n in range(number):
        each = scored(
            f"s{n}", 0, dataset="slidevqa", system="vrag_rl", values={"judged": float(n % 2), "qa_f1": 0.5},
            labels={"evidence pages": ["single" if n < 4 else "several"], "doc_type": ["slides"]},
        )  # fmt: skip
        each.experts["true_false_judge"] = told(bool(n % 2), by)
        yield each


def picture(trajectories, recipe="vrag_rl_qwen2_5_vl_7b") -> str:
    return make_report([ScoredRun("a", list(trajectories), {"recipe": recipe})], FEW).files[PICTURE]


def texts(svg: str) -> list[str]:
    found = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [each.text for each in found if each.text]


def test_lines_of_the_rule_judge_are_marked():
    told = texts(picture(slides(by=Author.RULE.value)))
    assert "judged right, evidence pages: single†" in told
    assert "evidence pages: single" in told
    assert OVERALL in texts(picture(over_three()))
    assert f"{OVERALL}†" in texts(picture(over_three(Author.RULE.value)))


def test_no_text_becomes_markup_in_a_picture_or_stops_it():
    trajectories = [
        scored(n, n % 2, document=f"{text}{n % 3}", labels={"kind": [text]}, agent=text)
        for n, text in enumerate(MARKED * 2)
    ]
    runs = [
        ScoredRun(text, trajectories, {"player": {"model": text}, "retriever": text, "recipe": text})
        for text in MARKED
    ]
    root = ET.fromstring(make_report(runs, FEW).files[PICTURE])
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "a", "image", "foreignObject"}
    assert all("onload" not in element.attrib for element in root.iter())
    shown = " ".join(each.text or "" for each in root.iter())
    assert "kind: <script>alert(1)</script>" in shown
    assert "$\\frac{1}{0}$ $x" in shown
    assert figure([], []).startswith("<?xml")
