"""Page sizes, fonts and colours of a document."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

from reportlab.lib import pagesizes
from reportlab.lib.colors import HexColor
from reportlab.lib.styles import ParagraphStyle

from docagent_rl.lab.synth.model import DocumentPlan, PageFormat

_SIZES = {
    PageFormat.A4: pagesizes.A4,
    PageFormat.LETTER: pagesizes.letter,
    PageFormat.LANDSCAPE: pagesizes.landscape(pagesizes.A4),
    PageFormat.SLIDE: (960.0, 540.0),
}
_FAMILIES = (("Helvetica", "Helvetica-Bold"), ("Times-Roman", "Times-Bold"))
_ACCENTS = ("#1f4e79", "#7a1f3d", "#2e6b34", "#5b3a86", "#8a4b08", "#135e63")


@dataclass(frozen=True)
class Style:
    """The look of a document; lengths are in points."""

    size: tuple[float, float]
    """Width and height of the page."""
    font: str
    bold: str
    accent: str
    """Hex colour."""
    text: float
    """Font size of running text."""
    zebra: bool
    """Tables with shaded rows, otherwise with lines."""
    chapter_breaks: bool
    """Whether every chapter begins on a new page."""
    margin: float = 54.0
    footer: float = 48.0
    """Height kept free at the bottom for the footer."""

    @property
    def width(self) -> float:
        """Width of the text."""
        return self.size[0] - 2 * self.margin

    @property
    def height(self) -> float:
        """Height of the text."""
        return self.size[1] - self.margin - self.footer

    @property
    def chart_size(self) -> tuple[float, float]:
        """Width and height of a chart."""
        width = min(self.width, 430.0)
        return width, min(0.52 * width, 0.5 * self.height)

    def paragraph(self, name: str, scale: float = 1.0, **changes: Any) -> ParagraphStyle:
        """Return the style of running text, `scale` times as large and with the attributes changed."""
        size = scale * self.text
        base = {"fontName": self.font, "leading": 1.35 * size, "spaceAfter": 0.7 * self.text}
        return ParagraphStyle(name, fontSize=size, **{**base, **changes})

    def heading(self, level: int) -> ParagraphStyle:
        """Return the style of a heading of level 0 or 1; it stays with what follows."""
        return self.paragraph(
            f"heading{level}",
            (1.75, 1.25)[level],
            fontName=self.bold,
            spaceBefore=self.text * (1.4, 0.9)[level],
            textColor=HexColor(self.accent),
            keepWithNext=1,
        )


def style_of(plan: DocumentPlan) -> Style:
    """Draw the look of a document from its id."""
    rng = random.Random(f"style/{plan.doc_id}")
    slide = plan.page_format is PageFormat.SLIDE
    font, bold = _FAMILIES[0] if slide else rng.choice(_FAMILIES)
    return Style(
        size=_SIZES[plan.page_format],
        font=font,
        bold=bold,
        accent=rng.choice(_ACCENTS),
        text=14.0 if slide else rng.choice((10.0, 10.5, 11.0)),
        zebra=rng.random() < 0.5,
        chapter_breaks=slide or rng.random() < 0.3,
    )
