from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bias_card.card import Measured, Verdict, bias_card
from bias_card.page import bias_page
from bias_card.plot import bias_plot
from bias_card.toy import Toy

DOCS = Path(__file__).parents[3] / "docs"


@pytest.fixture(scope="module")
def card() -> list[Measured]:
    return list(bias_card())


def test_the_shipped_page_is_what_is_measured(card: list[Measured]) -> None:
    shipped = (DOCS / "bias_card.md").read_text(encoding="utf-8")
    assert bias_page(card, Toy(), 4, 0.6) == shipped, "run `PYTHONPATH=examples python -m bias_card`"


def test_every_estimator_has_its_line(card: list[Measured]) -> None:
    page = bias_page(card, Toy(), 4, 0.6)
    lines = [line for line in page.splitlines() if line.startswith("| ")]
    for each in card:
        (line,) = (line for line in lines if line.startswith(f"| {each.row.name} |"))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == 8
        shown = [float(cells[place]) for place in (1, 3, 5, 6)]
        assert shown == pytest.approx([*each.expected, *each.variance], abs=5.1e-5)
        assert cells[7].replace("**", "") == each.explanation
    assert "-0.0000" not in page


def test_the_drawing_is_the_same_every_time(card: list[Measured]) -> None:
    first, second = bias_plot(card, 4), bias_plot(card, 4)
    assert first == second
    assert not re.search(r"<dc:date>|<dc:title>Matplotlib|20\d\d-\d\d-\d\d", first)


def test_the_shipped_drawing_names_all_rows_and_verdicts(card: list[Measured]) -> None:
    tree = ElementTree.parse(DOCS / "bias_card.svg")
    texts = {element.text for element in tree.iter() if element.tag.endswith("}text")}
    assert {each.row.name.replace("`", "") for each in card} <= texts
    assert {str(verdict) for verdict in Verdict} <= texts
