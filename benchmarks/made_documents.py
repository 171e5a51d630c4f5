"""PDFs of six kinds for measuring ingestion, drawn with a seed, so that they are always the same.

Text is set in DejaVu, whose files come with matplotlib: poppler and PDFium then draw the same
embedded glyphs.
"""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont
from reportlab import rl_config
from reportlab.lib.colors import Color
from reportlab.lib.pagesizes import A4, landscape
from reportlab.lib.utils import ImageReader, simpleSplit
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from benchmarks.common import filler

SERIF = "DejaVuSerif"
SANS = "DejaVuSans"
BOLD = "DejaVuSans-Bold"
MONO = "DejaVuSansMono"
_MARGIN = 56
_SCAN_DPI = 200
_POINTS_PER_INCH = 72

Draw = Callable[[Canvas, random.Random, int], None]
"""Draws one page; the number counts from 1."""


def write_kinds(folder: Path, pages: int) -> dict[str, Path]:
    """Write a PDF of `pages` pages of each kind into a folder of its own, and return the folders.

    The kinds, in order: `report`, `scan`, `form`, `slides`, `tables` and `photos`.
    """
    rl_config.useA85 = 0  # scanners, cameras and typesetters write bytes, not letters
    for name in (SERIF, SANS, BOLD, MONO):
        pdfmetrics.registerFont(TTFont(name, _font_file(name)))
    found = {}
    for kind, (draw, size) in _KINDS.items():
        found[kind] = folder / kind
        found[kind].mkdir(parents=True, exist_ok=True)
        rng = random.Random(kind)
        canvas = Canvas(str(found[kind] / f"{kind}.pdf"), pagesize=size, invariant=True)
        for number in range(1, pages + 1):
            draw(canvas, rng, number)
            canvas.showPage()
        canvas.save()
    return found


def _report(canvas: Canvas, rng: random.Random, number: int) -> None:
    """Draw a page of running text with two headings."""
    width, height = A4
    canvas.setFont(SANS, 8)
    canvas.drawCentredString(width / 2, 30, str(number))
    y = height - _MARGIN
    for part in range(2):
        canvas.setFont(BOLD, 14)
        canvas.drawString(_MARGIN, y, f"{number}.{part + 1} {filler(rng, 4).title()}")
        y = _lines(canvas, filler(rng, 260), (_MARGIN, y - 22), width - 2 * _MARGIN, (SERIF, 10.5))
        y -= 20


def _scan(canvas: Canvas, rng: random.Random, number: int) -> None:
    """Draw a page that is one JPEG of a scanner, grey or coloured by turns."""
    width, height = A4
    size = tuple(round(side * _SCAN_DPI / _POINTS_PER_INCH) for side in A4)
    page = Image.new("L", size, 244)
    draw = ImageDraw.Draw(page)
    font = ImageFont.truetype(_font_file(SERIF), 30)
    for line in range(50):
        draw.text((150, 130 + 40 * line), filler(rng, 13), font=font, fill=40)
    noise = np.roll(_noise((size[1], size[0]), 4), 7 * number, axis=(0, 1))
    worn = np.asarray(page.rotate(rng.uniform(-0.7, 0.7), fillcolor=244), np.float32) + noise
    picture = Image.fromarray(worn.clip(0, 255).astype(np.uint8))
    if number % 2:
        picture = Image.merge("RGB", [picture, picture, picture.point(lambda value: value * 0.93)])
    canvas.drawImage(_as_jpeg(picture, 80), 0, 0, width, height)


def _form(canvas: Canvas, rng: random.Random, number: int) -> None:
    """Draw a page of a form: labels, text fields, tick boxes, choices, links."""
    width, height = A4
    canvas.setFont(BOLD, 16)
    canvas.drawString(_MARGIN, height - 60, f"Form {number}: {filler(rng, 3)}")
    form = canvas.acroForm
    canvas.setFont(SANS, 9)
    for row in range(18):
        y = height - 100 - row * 36
        canvas.drawString(_MARGIN, y + 6, filler(rng, 3))
        name = f"{number}.{row}"
        look = {"borderColor": Color(0.2, 0.2, 0.2), "fillColor": Color(0.93, 0.95, 1)}
        if row % 6 == 5:
            form.choice(
                name=name, x=220, y=y, width=160, height=20, value="total", **look,
                options=["total", "revenue", "year"], fontSize=9,
            )  # fmt: skip
        else:
            form.textfield(
                name=name, x=220, y=y, width=220, height=20, value=filler(rng, 4), fontSize=9,
                **look,
            )  # fmt: skip
        form.checkbox(name=f"{name}c", x=460, y=y, size=16, checked=row % 3 == 0, **look)
        canvas.line(_MARGIN, y - 7, width - _MARGIN, y - 7)
    canvas.linkURL("https://example.org/", (_MARGIN, 40, 200, 60))
    _lines(canvas, filler(rng, 60), (_MARGIN, 72), width - 2 * _MARGIN, (SERIF, 8))


def _slide(canvas: Canvas, rng: random.Random, number: int) -> None:
    """Draw a slide: a gradient, a title, bullets, a chart of shapes and translucent curves."""
    width, height = landscape(A4)
    hue = rng.random()
    canvas.linearGradient(
        0, 0, width, height, (Color(0.9, 0.95, 1), Color(0.75 + hue / 5, 0.85, 0.95))
    )
    canvas.setFillColorRGB(0.1, 0.2, 0.5)
    canvas.rect(0, height - 80, width, 80, fill=1, stroke=0)
    canvas.setFillColorRGB(1, 1, 1)
    canvas.setFont(BOLD, 28)
    canvas.drawString(40, height - 52, f"{number} {filler(rng, 3).title()}")
    canvas.setFillColorRGB(0, 0, 0)
    canvas.setFont(SANS, 18)
    for line in range(5):
        canvas.drawString(50, height - 130 - line * 40, f"• {filler(rng, 4)}")
    for curve in range(60):
        canvas.setStrokeColorRGB(rng.random(), rng.random(), rng.random(), alpha=0.5)
        canvas.setLineWidth(1 + curve % 4)
        xs = [rng.uniform(width / 2, width - 30) for _ in range(4)]
        ys = [rng.uniform(30, height - 100) for _ in range(4)]
        canvas.bezier(xs[0], ys[0], xs[1], ys[1], xs[2], ys[2], xs[3], ys[3])
    for bar in range(12):
        canvas.setFillColorRGB(rng.random(), rng.random(), rng.random(), alpha=0.7)
        canvas.roundRect(60 + bar * 26, 40, 20, rng.uniform(20, 160), 5, fill=1, stroke=0)
    canvas.setFillColorRGB(0.9, 0.3, 0.2, alpha=0.6)
    for start in range(0, 360, 45):
        canvas.wedge(width - 230, 40, width - 60, 210, start, rng.uniform(20, 44), fill=1)


def _table(canvas: Canvas, rng: random.Random, number: int) -> None:
    """Draw a page with a dense table, in four embedded fonts with many of their letters."""
    width, height = A4
    canvas.setFont(BOLD, 12)
    canvas.drawString(_MARGIN, height - 50, f"Table {number}: {filler(rng, 5)}")
    rows = 52
    columns = 8
    left = 40
    across = (width - 80) / columns
    down = (height - 130) / rows
    canvas.setLineWidth(0.4)
    canvas.grid(
        [left + across * column for column in range(columns + 1)],
        [60 + down * row for row in range(rows + 1)],
    )
    for row in range(rows):
        y = 60 + down * row + 4
        for column in range(columns):
            font = (SERIF, SANS, MONO, BOLD)[column % 4]
            if column % 2:
                text = f"{rng.uniform(-1e5, 1e5):,.2f}"
            else:
                first = rng.choice((0x41, 0x391, 0x410, 0xC0, 0x100)) + rng.randrange(20)
                text = "".join(
                    chr(first + step) for step in range(6) if chr(first + step).isalpha()
                )
            canvas.setFont(font, 7)
            canvas.drawRightString(left + across * (column + 1) - 3, y, text)


def _photos(canvas: Canvas, rng: random.Random, number: int) -> None:
    """Draw two columns of text around two photos of a camera and a drawing with an alpha mask."""
    height = A4[1]
    canvas.setFont(BOLD, 20)
    canvas.drawString(_MARGIN, height - 60, filler(rng, 4).title())
    canvas.drawImage(_as_jpeg(_photo(number, (2400, 1600)), 88), _MARGIN, height - 330, 483, 250)
    canvas.drawImage(_as_jpeg(_photo(number + 1000, (1600, 1600)), 88), 310, 300, 229, 190)
    badge = Image.new("RGBA", (600, 600))
    shade = ImageDraw.Draw(badge)
    shade.ellipse((20, 20, 580, 580), fill=(200, 40, 60, 170))
    shade.rectangle((200, 250, 400, 350), fill=(255, 255, 255, 255))
    canvas.drawImage(ImageReader(badge), 400, 120, 130, 130, mask="auto")
    for column in range(2):
        x = _MARGIN + column * 254
        top = (height - 360, 280)[column]
        _lines(canvas, filler(rng, (210, 60)[column]), (x, top), 229, (SERIF, 9.5))


def _photo(seed: int, size: tuple[int, int]) -> Image.Image:
    """Return a picture like a photo's: smooth regions, edges, grain."""
    rng = np.random.default_rng(seed)
    rough = rng.integers(0, 256, (12, 18, 3), dtype=np.uint8)
    smooth = Image.fromarray(rough).resize(size, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(smooth)
    for _ in range(40):
        x, y = rng.integers(0, size[0]), rng.integers(0, size[1])
        reach = int(rng.integers(20, 240))
        colour = tuple(int(value) for value in rng.integers(0, 256, 3))
        draw.ellipse((x - reach, y - reach, x + reach, y + reach), fill=colour)
    blurred = smooth.filter(ImageFilter.GaussianBlur(2))
    grain = np.roll(_noise((size[1], size[0]), 5), 7 * seed, axis=(0, 1))[..., None]
    return Image.fromarray((np.asarray(blurred) + grain).clip(0, 255).astype(np.uint8))


@cache
def _noise(shape: tuple[int, int], spread: float) -> np.ndarray:
    return np.random.default_rng(0).normal(0, spread, shape).astype(np.float32)


def _lines(
    canvas: Canvas, text: str, start: tuple[float, float], width: float, font: tuple[str, float]
) -> float:
    """Draw wrapped text from `start` downwards, and return the y below its last line."""
    x, y = start
    canvas.setFont(*font)
    for line in simpleSplit(text, *font, width):
        canvas.drawString(x, y, line)
        y -= font[1] * 1.35
    return y


def _as_jpeg(image: Image.Image, quality: int) -> ImageReader:
    """Return a picture that reportlab embeds as the JPEG file that it is."""
    buffer = io.BytesIO()
    image.save(buffer, format="JPEG", quality=quality)
    buffer.seek(0)
    return ImageReader(buffer)


def _font_file(name: str) -> str:
    return str(Path(matplotlib.get_data_path(), "fonts", "ttf", f"{name}.ttf"))


_KINDS: dict[str, tuple[Draw, tuple[float, float]]] = {
    "report": (_report, A4),
    "scan": (_scan, A4),
    "form": (_form, A4),
    "slides": (_slide, landscape(A4)),
    "tables": (_table, A4),
    "photos": (_photos, A4),
}
