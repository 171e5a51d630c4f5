from __future__ import annotations

import dataclasses
import io
import re
from collections.abc import Iterator
from itertools import pairwise

import pypdfium2
import pytest

from docagent_rl.synth.layout import Rendered, render
from docagent_rl.synth.model import Chart, PageFormat
from docagent_rl.synth.plan import plan_document
from docagent_rl.synth.settings import PROFILES, Difficulty, SynthSettings


def open_pdf(rendered: Rendered) -> pypdfium2.PdfDocument:
    return pypdfium2.PdfDocument(io.BytesIO(rendered.pdf))


def page_texts(rendered: Rendered) -> list[str]:
    return [page.get_textpage().get_text_range() for page in open_pdf(rendered)]


def plans(difficulty: Difficulty, formats: set[PageFormat]) -> Iterator:
    """The first plan of each page format."""
    settings = SynthSettings(documents=100, seed=11, difficulties=(difficulty,))
    wanted = set(formats)
    for index in range(100):
        plan = plan_document(settings, index)
        if plan.page_format in wanted:
            wanted.remove(plan.page_format)
            yield plan


def test_same_plan_same_bytes(documents: list[Rendered]) -> None:
    for rendered in documents[:3]:
        assert render(rendered.plan).pdf == rendered.pdf


def test_lengths_fit_the_difficulty(documents: list[Rendered]) -> None:
    for rendered in documents:
        fewest, most = PROFILES[rendered.plan.difficulty].pages
        assert fewest <= rendered.num_pages <= most
        assert rendered.num_pages == len(open_pdf(rendered))


@pytest.mark.parametrize("difficulty", [Difficulty.EASY, Difficulty.MEDIUM])
def test_every_page_format_can_be_laid_out(difficulty: Difficulty) -> None:
    ratios = {}
    for plan in plans(difficulty, set(PageFormat)):
        rendered = render(plan)
        fewest, most = PROFILES[difficulty].pages
        assert fewest <= rendered.num_pages <= most, plan.doc_id
        width, height = open_pdf(rendered)[0].get_size()
        ratios[plan.page_format] = round(width / height, 2)
    assert ratios == {
        PageFormat.A4: 0.71,
        PageFormat.LETTER: 0.77,
        PageFormat.LANDSCAPE: 1.41,
        PageFormat.SLIDE: 1.78,
    }


def test_contents_and_bookmarks_lead_to_the_headings(documents: list[Rendered]) -> None:
    for rendered in documents:
        texts = page_texts(rendered)
        bookmarks = [
            (bookmark.get_title(), bookmark.get_dest().get_index() + 1)
            for bookmark in open_pdf(rendered).get_toc()
        ]
        headings = [(section.title, rendered.spot(section.key).page) for section in rendered.sections]
        assert bookmarks == headings
        for title, page in headings:
            assert title in re.split(r"[\r\n]+", texts[page - 1]), (title, page)
        # the table of contents stands before the first heading
        contents = " ".join(" ".join(texts[: headings[0][1] - 1]).split())
        for title, page in headings:
            assert re.search(rf"{re.escape(title)} {page}(?!\d)", contents), (title, page, contents)


def test_footers_number_the_pages(documents: list[Rendered]) -> None:
    for rendered in documents:
        for number, text in enumerate(page_texts(rendered), start=1):
            assert f"Page {number} of {rendered.num_pages}" in text


def test_tables_and_figures_are_numbered_in_order(documents: list[Rendered]) -> None:
    for rendered in documents:
        text = " ".join(" ".join(page_texts(rendered)).split())
        for name in ("Table", "Figure"):
            found = [int(number) for number in re.findall(rf"{name} (\d+)\. [A-Z]", text)]
            assert found == list(range(1, len(found) + 1))
        charts = [b for section in rendered.sections for b in section.blocks if isinstance(b, Chart)]
        for chart in charts:
            assert f"{rendered.labels[chart.key]}. {chart.full_caption}" in text


def test_nothing_is_cut_off_or_overlaps(documents: list[Rendered]) -> None:
    """All that was drawn lies inside the page and no two paragraphs, tables or pictures touch."""
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


def test_text_stays_between_the_margins(documents: list[Rendered]) -> None:
    for rendered in documents:
        for page in open_pdf(rendered):
            width, height = page.get_size()
            text = page.get_textpage()
            for index in range(text.count_rects()):
                left, bottom, right, top = text.get_rect(index)
                assert 50 < left < right < width - 50
                assert 15 < bottom < top < height - 30


def test_names_of_a_document_occur_in_no_other(documents: list[Rendered]) -> None:
    texts = {rendered.plan.doc_id: " ".join(page_texts(rendered)) for rendered in documents}
    for rendered in documents:
        plan = rendered.plan
        names = [plan.company.split()[0], *(unit.name for unit in plan.units)]
        for name in names:
            assert name in texts[plan.doc_id]
            others = [text for doc_id, text in texts.items() if doc_id != plan.doc_id]
            assert not any(re.search(rf"\b{name}\b", text) for text in others)


def test_a_document_that_is_too_long_loses_chapters(documents: list[Rendered]) -> None:
    plan = next(rendered.plan for rendered in documents if rendered.plan.difficulty is Difficulty.MEDIUM)
    shorter = render(dataclasses.replace(plan, pages=(6, 7)))
    assert shorter.num_pages <= 7
    full = render(dataclasses.replace(plan, pages=(8, 1000)))
    assert len(shorter.sections) < len(full.sections)
    assert full.sections == plan.sections(len(plan.chapters), len(plan.back))
