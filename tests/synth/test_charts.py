from __future__ import annotations

import matplotlib
import numpy as np
import pytest

from docagent_rl.synth.charts import DPI, draw_chart
from docagent_rl.synth.model import Chart, ChartKind, Measure


def drawn(kind: ChartKind, *values: str) -> np.ndarray:
    labels, measure = ("Q1", "Q2", "Q3", "Q4")[: len(values)], Measure("energy use", "MWh", 1, 100, 0)
    chart = Chart("chart/1", kind, "Energy use.", labels, values, measure, "Brenoka", False)
    return np.asarray(draw_chart(chart, (360.0, 180.0), "#1f4e79"))


def accent(image: np.ndarray) -> np.ndarray:
    """Pixels in the accent colour in each column of the picture."""
    return (np.abs(image.astype(int) - (0x1F, 0x4E, 0x79)).sum(axis=2) < 12).sum(axis=0)


@pytest.mark.parametrize("kind", list(ChartKind))
def test_same_content_same_pixels_whatever_the_style_of_the_user(kind):
    values = ("20%", "30%", "40%", "10%") if kind is ChartKind.PIE else ("20", "30", "40", "10")
    first = drawn(kind, *values)
    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "black"}):
        np.testing.assert_array_equal(first, drawn(kind, *values))
        assert matplotlib.rcParams["font.size"] == 30
    assert first.shape == (180 * DPI // 72, 360 * DPI // 72, 3)
    assert all((edge == 255).all() for edge in (first[[0, -1]], first[:, [0, -1]]))


def test_bars_have_heights_in_proportion_to_the_values():
    heights = accent(drawn(ChartKind.BAR, "1,000", "500", "250"))
    edges = np.flatnonzero(np.diff((heights > 3).astype(int)))
    bars = [int(np.median(heights[start + 2 : stop - 1])) for start, stop in edges.reshape(-1, 2)]
    assert [bars[0] / bar for bar in bars] == pytest.approx([1, 2, 4], rel=0.05)


def test_wedges_have_areas_in_proportion_to_the_values():
    image = drawn(ChartKind.PIE, "60%", "30%", "10%")
    assert accent(image).sum() / (image.min(axis=2) < 235).sum() == pytest.approx(0.6, abs=0.06)
