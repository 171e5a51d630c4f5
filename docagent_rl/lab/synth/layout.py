"""Rendering a plan as a PDF, and recording where everything was placed."""

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image
from reportlab.lib.colors import HexColor
from reportlab.pdfgen.canvas import Canvas
from reportlab.platypus import (
    BaseDocTemplate,
    CondPageBreak,
    Flowable,
    Frame,
    KeepTogether,
    PageBreak,
    PageTemplate,
    Paragraph,
    Spacer,
)

from docagent_rl.lab.synth.flowables import (
    BOLD,
    FONT,
    FOOTER,
    MARGIN,
    DocumentStyle,
    NotedParagraph,
    NotedTable,
    Picture,
    Spot,
    Spots,
    contents,
)
from docagent_rl.lab.synth.model import Block, Chart, Prose, ReportSection, Table
from docagent_rl.lab.synth.plan import DocumentPlan

DPI = 130
"""Resolution of charts."""


@dataclass(frozen=True)
class Rendered:
    """A finished document."""

    plan: DocumentPlan
    sections: Sequence[ReportSection]
    """The printed sections, in order."""
    pdf: bytes
    num_pages: int
    spots: Mapping[str, Spot]
    """Places of all sections, paragraphs, tables, table rows, charts and captions, by key."""
    labels: Mapping[str, str]
    """`Table 3` or `Figure 2`, by the key of the table or chart."""


def render_document(plan: DocumentPlan) -> Rendered:
    """Lay out as much of `plan` as its length allows, and write the PDF; equal plans give equal
    bytes.

    It takes at least two passes: drafts without pictures determine the length and the page numbers
    for the table of contents; the last pass draws.
    """
    draft = _fit(plan)
    starts = {section.key: draft.spots[section.key].page for section in draft.sections}
    final = _Layout(plan, draft.sections, starts, draft.num_pages).build(draw=True)
    if draft.spots != final.spots:
        raise RuntimeError(f"{plan.doc_id}: the layout moved between passes")
    return final


def _fit(plan: DocumentPlan) -> Rendered:
    """Lay out as many chapters and closing sections as it takes to reach the intended length."""

    def draft(chapters: int, back: int) -> Rendered:
        return _Layout(plan, plan.sections(chapters, back), {}, 0).build(draw=False)

    fewest, target = plan.pages
    chapters = len(plan.chapters)
    back = len(plan.back)
    found = draft(chapters, back)
    while found.num_pages > target and (chapters > 1 or back):
        if chapters > 1:
            # drop all chapters that begin beyond the target at once, but at least one
            pages = [found.spots[chapter[0].key].page for chapter in plan.chapters[:chapters]]
            chapters = max(1, min(chapters - 1, sum(page <= target for page in pages)))
        else:
            back -= 1
        found = draft(chapters, back)
    # since the table of contents is now shorter, too much may have been dropped
    while found.num_pages < fewest and chapters < len(plan.chapters):
        chapters += 1
        found = draft(chapters, back)
    return found


class _Layout:
    """One pass over the sections of a document."""

    def __init__(
        self,
        plan: DocumentPlan,
        sections: Sequence[ReportSection],
        starts: Mapping[str, int],
        num_pages: int,
    ) -> None:
        self.plan = plan
        self.sections = sections
        self.starts = starts
        self.num_pages = num_pages
        self.style = DocumentStyle.of(plan)
        self.spots = Spots(self.style.size)
        self.labels = _labels(sections)

    def build(self, *, draw: bool) -> Rendered:
        style = self.style
        plan = self.plan
        buffer = io.BytesIO()
        frame = Frame(MARGIN, FOOTER, style.width, style.height, 0, 0, 0, 0)
        document = BaseDocTemplate(
            buffer,
            pagesize=style.size,
            title=f"{plan.company}: {plan.report}",
            author=plan.company,
            invariant=1,
            pageCompression=1 if draw else 0,
            pageTemplates=[PageTemplate("page", [frame], onPage=self._page)],
        )
        document.build(list(self._story(draw)))
        found = self.spots.found
        return Rendered(plan, self.sections, buffer.getvalue(), document.page, found, self.labels)

    def _story(self, draw: bool) -> Iterator[Flowable]:
        style = self.style
        plan = self.plan
        yield Spacer(1, 0.16 * style.height)
        yield Paragraph(plan.company, style.paragraph("company", 1.5))
        title = style.paragraph("title", 2.8, fontName=BOLD, spaceAfter=1.5 * style.text)
        yield Paragraph(plan.report, title)
        yield Paragraph(f"Report on the year {plan.year}", style.paragraph("body"))
        # in a short report the contents are on the title page
        yield Spacer(1, 0.1 * style.height) if plan.easy else PageBreak()
        yield Paragraph("Contents", style.paragraph("contents", 1.5, fontName=BOLD))
        yield contents(self.sections, self.starts, style)
        yield PageBreak()
        for section in self.sections:
            yield from self._section(section, draw)

    def _section(self, section: ReportSection, draw: bool) -> Iterator[Flowable]:
        style = self.style
        level = section.level
        if level == 0 and section is not self.sections[0]:
            yield PageBreak() if self.plan.slides else CondPageBreak(0.25 * style.height)
        heading = NotedParagraph(
            section.title, style.heading(level), self.spots, section.key, level
        )
        first, *rest = section.blocks
        yield KeepTogether([heading, *self._block(first, draw)])
        for block in rest:
            yield KeepTogether(self._block(block, draw))

    def _block(self, block: Block, draw: bool) -> list[Flowable]:
        style = self.style
        spots = self.spots
        if isinstance(block, Prose):
            return [NotedParagraph(block.text, style.paragraph("body"), spots, block.key)]
        grey = style.paragraph("caption", 0.9, textColor=HexColor("#444444"))
        text = f"<b>{self.labels[block.key]}.</b> {block.caption}"
        caption = NotedParagraph(text, grey, spots, f"{block.key}/caption")
        if isinstance(block, Table):
            return [caption, NotedTable(block, style, spots), Spacer(1, 1.2 * style.text)]
        make = partial(draw_chart, block, style.chart_size, style.accent) if draw else None
        return [Picture(style.chart_size, make, spots, block.key), Spacer(1, 4), caption]

    def _page(self, canvas: Canvas, _: BaseDocTemplate) -> None:
        """Draw the footer."""
        style = self.style
        base = 0.5 * FOOTER
        right = self.style.size[0] - MARGIN
        canvas.saveState()
        canvas.setStrokeColor(HexColor(style.accent))
        canvas.setLineWidth(0.5)
        canvas.line(MARGIN, base + 12, right, base + 12)
        canvas.setFont(FONT, 8.5)
        canvas.setFillGray(0.3)
        canvas.drawString(MARGIN, base, f"{self.plan.company} | {self.plan.report}")
        canvas.drawRightString(right, base, f"Page {canvas.getPageNumber()} of {self.num_pages}")
        canvas.restoreState()


def _labels(sections: Sequence[ReportSection]) -> dict[str, str]:
    labels: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for block in (block for section in sections for block in section.blocks):
        if not isinstance(block, Prose):
            name = "Table" if isinstance(block, Table) else "Figure"
            counts[name] += 1
            labels[block.key] = f"{name} {counts[name]}"
    return labels


def draw_chart(chart: Chart, size: tuple[float, float], accent: str) -> Image.Image:
    """Draw `chart` at `size` points (1/72 inch) and `DPI`, with every value printed at its bar.

    The caption is not part of the picture. matplotlib's defaults apply, not the user's style file.
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
    bars = axes.bar(range(len(heights)), heights, width=0.55, color=accent)
    axes.bar_label(bars, chart.values, padding=3, size=10)
    axes.set_xticks(range(len(heights)), chart.labels)
    axes.set_xlim(-0.6, len(heights) - 0.4)
    axes.set_ylim(0, 1.18 * max(heights))
    axes.set_ylabel(chart.measure.heading, size=9)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
