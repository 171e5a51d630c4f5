from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from docagent_rl.synth.charts import DPI, draw_chart
from docagent_rl.synth.model import Chart, ChartKind, Measure

MEASURE = Measure("energy use", "MWh", 1, 100, 0)
ACCENT = "#1f4e79"
SIZE = (360.0, 180.0)


def chart(kind: ChartKind, *values: str) -> Chart:
    labels = ("Q1", "Q2", "Q3", "Q4")[: len(values)]
    return Chart("chart/1", kind, "Energy use.", labels, values, MEASURE, "Brenoka", False)


def columns_of(image: np.ndarray) -> np.ndarray:
    """Pixels in the accent colour in each column of the picture."""
    return (np.abs(image.astype(int) - (0x1F, 0x4E, 0x79)).sum(axis=2) < 12).sum(axis=0)


@pytest.mark.parametrize("kind", list(ChartKind))
def test_same_content_same_pixels_whatever_the_style_of_the_user(kind: ChartKind) -> None:
    values = ("20%", "30%", "40%", "10%") if kind is ChartKind.PIE else ("20", "30", "40", "10")
    first = np.asarray(draw_chart(chart(kind, *values), SIZE, ACCENT))
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        second = np.asarray(draw_chart(chart(kind, *values), SIZE, ACCENT))
        assert matplotlib.rcParams["font.size"] == 30
    np.testing.assert_array_equal(first, second)
    assert first.shape == (180 * DPI // 72, 360 * DPI // 72, 3)
    assert (first[[0, -1]] == 255).all()
    assert (first[:, [0, -1]] == 255).all()


def test_bars_have_heights_in_proportion_to_the_values() -> None:
    image = np.asarray(draw_chart(chart(ChartKind.BAR, "1,000", "500", "250"), SIZE, ACCENT))
    heights = columns_of(image)
    edges = np.flatnonzero(np.diff((heights > 3).astype(int)))
    bars = [int(np.median(heights[start + 2 : stop - 1])) for start, stop in edges.reshape(-1, 2)]
    assert len(bars) == 3
    assert bars[0] / bars[1] == pytest.approx(2, rel=0.05)
    assert bars[0] / bars[2] == pytest.approx(4, rel=0.05)


def test_wedges_have_areas_in_proportion_to_the_values() -> None:
    image = np.asarray(draw_chart(chart(ChartKind.PIE, "60%", "30%", "10%"), SIZE, ACCENT))
    first = columns_of(image).sum()
    coloured = (image.min(axis=2) < 235).sum()
    assert first / coloured == pytest.approx(0.6, abs=0.06)
