import copy
from itertools import pairwise

import numpy as np
import pytest

from docagent_rl.lab.synth.layout import draw_chart, render_document
from docagent_rl.lab.synth.lexicon import Quantity
from docagent_rl.lab.synth.model import Chart
from docagent_rl.lab.synth.settings import DocumentDifficulty


def test_nothing_is_cut_off_or_overlaps(documents):
    for rendered in documents:
        by_page: dict[int, list[tuple[str, tuple]]] = {}
        for key, spot in rendered.spots.items():
            assert 0 < spot.box[0] < spot.box[2] < 1
            assert 0 < spot.box[1] < spot.box[3] < 0.96
            if "/row/" not in key:
                by_page.setdefault(spot.page, []).append((key, spot.box))
        for spots in by_page.values():
            ordered = sorted(spots, key=lambda spot: spot[1][1])
            for (upper, first), (lower, second) in pairwise(ordered):
                assert first[3] <= second[1] + 1e-4, (rendered.plan.doc_id, upper, lower)


def test_a_document_that_is_too_long_loses_chapters(documents):
    plan = next(
        rendered.plan
        for rendered in documents
        if rendered.plan.difficulty is DocumentDifficulty.MEDIUM
    )
    short, long = copy.copy(plan), copy.copy(plan)
    short.pages, long.pages = (6, 7), (8, 1000)
    shorter, full = render_document(short), render_document(long)
    assert shorter.num_pages <= 7
    assert len(shorter.sections) < len(full.sections)
    assert full.sections == plan.sections(len(plan.chapters), len(plan.back))


def drawn(*values: str) -> np.ndarray:
    labels, measure = ("Q1", "Q2", "Q3", "Q4")[: len(values)], Quantity("energy use", 1, 100, "MWh")
    chart = Chart("chart/1", "Energy use.", labels, values, measure, "Brenoka", False)
    return np.asarray(draw_chart(chart, (360.0, 180.0), "#1f4e79"))


def accent(image: np.ndarray) -> np.ndarray:
    """Return the number of pixels in the accent colour in each column of the picture."""
    return (np.abs(image.astype(int) - (0x1F, 0x4E, 0x79)).sum(axis=2) < 12).sum(axis=0)


def test_bars_have_heights_in_proportion_to_the_values():
    heights = accent(drawn("1,000", "500", "250"))
    edges = np.flatnonzero(np.diff((heights > 3).astype(int)))
    bars = [int(np.median(heights[start + 2 : stop - 1])) for start, stop in edges.reshape(-1, 2)]
    assert [bars[0] / bar for bar in bars] == pytest.approx([1, 2, 4], rel=0.05)
