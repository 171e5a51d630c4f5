"""Charts as pictures, the same pixels for the same content."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from docagent_rl.lab.synth.model import Chart, ChartKind

DPI = 130


def draw_chart(chart: Chart, size: tuple[float, float], accent: str) -> Image.Image:
    """Draw `chart` at `size` points (1/72 inch) and `DPI`, every value printed beside its mark.

    The caption is not part of the picture. The defaults of matplotlib apply, not the user's style file.
    """
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        figure = Figure(figsize=(size[0] / 72, size[1] / 72), dpi=DPI)
        canvas = FigureCanvasAgg(figure)
        _draw(figure.add_axes((0.12, 0.13, 0.84, 0.82)), chart, accent)
        canvas.draw()
        return Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")


def _draw(axes: Axes, chart: Chart, accent: str) -> None:
    heights = [float(value.replace(",", "")) for value in chart.values]
    positions = range(len(heights))
    if chart.kind is ChartKind.BAR:
        axes.bar(positions, heights, width=0.55, color=accent)
    else:
        axes.plot(positions, heights, color=accent, marker="o", linewidth=2)
    for position, height, value in zip(positions, heights, chart.values, strict=True):
        # the white ground keeps a value readable where a line passes behind it
        axes.annotate(
            value,
            (position, height),
            xytext=(0, 8 if chart.kind is ChartKind.LINE else 5),
            textcoords="offset points",
            ha="center",
            size=10,
            zorder=5,
            bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        )
    axes.set_xticks(positions, chart.labels)
    axes.set_xlim(-0.6, len(heights) - 0.4)
    axes.set_ylim(0, 1.18 * max(heights))
    axes.set_ylabel(chart.measure.heading, size=9)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
