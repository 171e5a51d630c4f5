"""From a plan to a PDF, and where everything ended up."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

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

from docagent_rl.lab.synth.charts import draw_chart
from docagent_rl.lab.synth.flowables import (
    ContentsLine,
    Heading,
    Ledger,
    NotedParagraph,
    NotedTable,
    Picture,
    Spot,
)
from docagent_rl.lab.synth.model import Block, Chart, DocumentPlan, Prose, Section, Table
from docagent_rl.lab.synth.settings import Difficulty
from docagent_rl.lab.synth.style import Style, style_of


@dataclass(frozen=True)
class Rendered:
    """A finished document."""

    plan: DocumentPlan
    sections: tuple[Section, ...]
    """What was printed, in order."""
    pdf: bytes
    num_pages: int
    spots: Mapping[str, Spot]
    """Where each section, paragraph, table, table row, chart and caption is, by key."""
    labels: Mapping[str, str]
    """`Table 3` or `Figure 2` by key of the table or chart."""

    def spot(self, key: str) -> Spot:
        """Where `key` was drawn."""
        return self.spots[key]


def render(plan: DocumentPlan) -> Rendered:
    """Lay out as much of `plan` as its length allows and write the PDF; equal plans give equal bytes.

    Two passes at least: drafts without pictures find the length and the page numbers for the table of
    contents, the last pass draws.
    """
    chapters, back, draft = _fit(plan)
    sections = plan.sections(chapters, back)
    starts = {section.key: draft.spots[section.key].page for section in sections}
    final = _Layout(plan, sections, starts, draft.num_pages).build(draw=True)
    moved = [section.title for section in sections if final.spots[section.key].page != starts[section.key]]
    if moved or final.num_pages != draft.num_pages:
        raise RuntimeError(f"{plan.doc_id}: layout moved between passes at {moved}")
    return final


def _fit(plan: DocumentPlan) -> tuple[int, int, Rendered]:
    """The number of chapters and closing sections with which the document has the length it should have."""
    target = plan.pages[1]
    chapters, back = len(plan.chapters), len(plan.back)
    draft = _draft(plan, chapters, back)
    while draft.num_pages > target and (chapters > 1 or back):
        if chapters > 1:
            excess = draft.num_pages - target
            pages = [draft.spots[chapter[0].key].page for chapter in plan.chapters[:chapters]]
            # cut in one go all chapters that begin in the excess, and always at least one
            chapters = max(1, min(chapters - 1, sum(page <= draft.num_pages - excess for page in pages)))
        else:
            back -= 1
        draft = _draft(plan, chapters, back)
    # a shorter table of contents may have made the cut too deep
    while draft.num_pages < plan.pages[0] and chapters < len(plan.chapters):
        chapters += 1
        draft = _draft(plan, chapters, back)
    return chapters, back, draft


def _draft(plan: DocumentPlan, chapters: int, back: int) -> Rendered:
    sections = plan.sections(chapters, back)
    return _Layout(plan, sections, {}, 0).build(draw=False)


class _Layout:
    """One pass over the sections of a document."""

    def __init__(
        self, plan: DocumentPlan, sections: tuple[Section, ...], starts: Mapping[str, int], num_pages: int
    ) -> None:
        self.plan, self.sections, self.starts, self.num_pages = plan, sections, starts, num_pages
        self.style: Style = style_of(plan)
        self.ledger = Ledger(self.style.size)
        self.labels = _labels(sections)

    def build(self, *, draw: bool) -> Rendered:
        style, buffer = self.style, io.BytesIO()
        frame = Frame(style.margin, style.footer, style.width, style.height, 0, 0, 0, 0)
        document = BaseDocTemplate(
            buffer,
            pagesize=style.size,
            title=f"{self.plan.company}: {self.plan.report}",
            author=self.plan.company,
            invariant=1,
            pageCompression=1 if draw else 0,
            pageTemplates=[
                PageTemplate("title", [frame], onPage=self._title_page),
                PageTemplate("body", [frame], onPage=self._footer, autoNextPageTemplate="body"),
            ],
        )
        document.pageTemplates[0].autoNextPageTemplate = "body"
        document.build(list(self._story(draw)))
        return Rendered(
            self.plan, self.sections, buffer.getvalue(), document.page, self.ledger.spots, self.labels
        )

    def _story(self, draw: bool) -> Iterator[Flowable]:
        style, easy = self.style, self.plan.difficulty is Difficulty.EASY
        yield Spacer(1, 0.16 * style.height)
        yield Paragraph(self.plan.company, style.paragraph("company", fontSize=1.5 * style.text))
        title = style.paragraph(
            "title", fontName=style.bold, fontSize=2.8 * style.text, spaceAfter=1.5 * style.text
        )
        yield Paragraph(self.plan.report, title)
        yield Paragraph(f"Report on the year {self.plan.year}", style.body())
        # a short report has its contents on the title page
        yield Spacer(1, 0.1 * style.height) if easy else PageBreak()
        contents = style.paragraph("contents", fontName=style.bold, fontSize=1.5 * style.text)
        yield Paragraph("Contents", contents)
        for section in self.sections:
            page = self.starts.get(section.key, 0)
            yield ContentsLine(section.title, page, section.level, style, section.key)
        yield PageBreak()
        for section in self.sections:
            yield from self._section(section, draw)

    def _section(self, section: Section, draw: bool) -> Iterator[Flowable]:
        style = self.style
        if section.level == 0 and section is not self.sections[0]:
            yield PageBreak() if style.chapter_breaks else CondPageBreak(0.25 * style.height)
        heading = Heading(
            section.title, section.level, style.heading(section.level), self.ledger, section.key
        )
        first, *rest = section.blocks
        yield KeepTogether([heading, *self._block(first, draw)])
        for block in rest:
            yield KeepTogether(list(self._block(block, draw)))

    def _block(self, block: Block, draw: bool) -> Iterator[Flowable]:
        style, ledger = self.style, self.ledger
        if isinstance(block, Prose):
            yield NotedParagraph(block.text, style.body(), ledger, block.key)
            return
        text = f"<b>{self.labels[block.key]}.</b> " + (
            block.full_caption if isinstance(block, Chart) else block.caption
        )
        caption = NotedParagraph(text, style.caption(), ledger, f"{block.key}/caption")
        if isinstance(block, Table):
            yield from (caption, NotedTable(block, style, ledger), Spacer(1, 1.2 * style.text))
            return
        make = partial(draw_chart, block, style.chart_size, style.accent) if draw else None
        yield from (Picture(style.chart_size, make, ledger, block.key), Spacer(1, 4), caption)

    def _title_page(self, canvas: Canvas, _: BaseDocTemplate) -> None:
        width, height = self.style.size
        canvas.saveState()
        canvas.setFillColor(HexColor(self.style.accent))
        canvas.rect(0, height - 0.09 * height, width, 0.09 * height, stroke=0, fill=1)
        canvas.restoreState()
        self._footer(canvas, _)

    def _footer(self, canvas: Canvas, _: BaseDocTemplate) -> None:
        style, base = self.style, 0.5 * self.style.footer
        canvas.saveState()
        canvas.setStrokeColor(HexColor(style.accent))
        canvas.setLineWidth(0.5)
        canvas.line(style.margin, base + 12, style.size[0] - style.margin, base + 12)
        canvas.setFont(style.font, 8.5)
        canvas.setFillGray(0.3)
        canvas.drawString(style.margin, base, f"{self.plan.company} | {self.plan.report}")
        pages = f"Page {canvas.getPageNumber()} of {self.num_pages}"
        canvas.drawRightString(style.size[0] - style.margin, base, pages)
        canvas.restoreState()


def _labels(sections: tuple[Section, ...]) -> dict[str, str]:
    labels: dict[str, str] = {}
    counts = {"Table": 0, "Figure": 0}
    for block in (block for section in sections for block in section.blocks):
        if not isinstance(block, Prose):
            name = "Table" if isinstance(block, Table) else "Figure"
            counts[name] += 1
            labels[block.key] = f"{name} {counts[name]}"
    return labels
