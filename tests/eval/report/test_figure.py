"""What stands in the picture of a report."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

from docagent_rl.eval.report.build import ReportSettings, ScoredRun
from docagent_rl.eval.report.figure import figure
from docagent_rl.eval.report.making import make_report
from docagent_rl.eval.scoring.experts import Author
from tests.eval.report.scores import HOSTILE, OVERALL, over_three, scored, told

FEW = ReportSettings(draws=20)
MARKED = [text for text in HOSTILE if re.search(r"[<&>$\x00-\x1f\ud800-\udfff\"\\\u202e]", text)]


def slides(by="judge-1", number=8):
    """Sessions of VRAG-RL over SlideVQA, whose paper prints two lines, and over nothing else."""
    for n in range(number):
        each = scored(
            f"s{n}", 0, dataset="slidevqa", system="vrag_rl", values={"judged": float(n % 2), "qa_f1": 0.5},
            labels={"evidence pages": ["single" if n < 4 else "several"], "doc_type": ["slides"]},
        )  # fmt: skip
        each.experts["true_false_judge"] = told(bool(n % 2), by)
        yield each


def picture(sessions, recipe="vrag_rl_qwen2_5_vl_7b") -> str:
    return make_report([ScoredRun("a", list(sessions), {"recipe": recipe})], FEW).picture


def texts(svg: str) -> list[str]:
    found = ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")
    return [each.text for each in found if each.text]


def diamonds(svg: str) -> int:
    """Markers in the papers' colour, less the legend's."""
    return len(re.findall(r'<use [^>]*style="[^"]*stroke: #444444', svg)) - ("paper" in texts(svg))


def test_papers_numbers_of_lines_that_are_not_the_headlines_are_drawn():
    found = picture(slides())
    told = texts(found)
    assert {"judged right, evidence pages: single", "judged right, evidence pages: several"} <= set(told)
    assert "evidence pages: single" in told  # of the headline, F1
    assert "judged right, doc_type: slides" not in told  # no paper prints it
    assert diamonds(found) == 2
    assert diamonds(picture(slides(), recipe="alden_qwen2_5_vl_7b")) == 0


def test_lines_of_the_rule_judge_are_marked():
    told = texts(picture(slides(by=Author.RULE.value)))
    assert "judged right, evidence pages: single†" in told
    assert "evidence pages: single" in told
    assert OVERALL in texts(picture(over_three()))
    assert f"{OVERALL}†" in texts(picture(over_three(Author.RULE.value)))


def test_no_text_becomes_markup_in_a_picture_or_stops_it():
    sessions = [
        scored(n, n % 2, document=f"{text}{n % 3}", labels={"kind": [text]}, agent=text)
        for n, text in enumerate(MARKED * 2)
    ]
    runs = [
        ScoredRun(text, sessions, {"player": {"model": text}, "retriever": text, "recipe": text})
        for text in MARKED
    ]
    root = ET.fromstring(make_report(runs, FEW).picture)
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert not tags & {"script", "a", "image", "foreignObject"}
    assert all("onload" not in element.attrib for element in root.iter())
    shown = " ".join(each.text or "" for each in root.iter())
    assert "kind: <script>alert(1)</script>" in shown
    assert "$\\frac{1}{0}$ $x" in shown
    assert figure([], []).startswith("<?xml")
