"""How lines are printed and where: headings, captions, and the lines of scans."""

from __future__ import annotations

import random

import pytest
from reportlab.lib.pagesizes import A5
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.contents import list_of_figures, table_of_contents
from docagent_rl.documents.contents.pages import settled
from docagent_rl.documents.typography import MEASURED, Line, Style, dump_lines, load_lines

CHAPTERS = ["Rivers", "Mountains", "Sea and land"]
PROSE = "Plain words of the body that go on to the end of the line"


@pytest.fixture
def report(inbox):
    """No bookmarks, no numbers, no table of contents: print alone tells headings."""
    canvas = Canvas(str(inbox / "report.pdf"), pagesize=A5)

    def draw(font, size, top, *lines):
        canvas.setFont(font, size)
        for row, line in enumerate(lines):
            canvas.drawString(40, top - (size + 2) * row, line)

    for chapter in CHAPTERS:
        prose = [f"{PROSE} {chapter} {letter}" for letter in "abcdefghijkl"]
        first, second = f"Ways to see {chapter.lower()} and to know that the title", f"goes on {chapter}"
        draw("Helvetica-Bold", 18, 500, chapter)
        draw("Times-Roman", 10, 470, *prose)
        draw("Helvetica-Bold", 13, 300, first, second)
        draw("Times-Bold", 12, 250, "Note")
        draw("Times-Roman", 10, 230, *(f"{line} too" for line in prose))
        canvas.showPage()
    canvas.save()
    return inbox / "report.pdf"


def test_print_is_stored_and_tells_headings(report, store_path, ingested):
    ingested()
    document = DocumentStore(store_path).document("report")
    lines = document.page(1).lines()
    box = pytest.approx((0.095, 0.131, 0.226, 0.167), abs=0.002)
    assert lines[0] == Line("Rivers", Style(18.0, "Helvetica-Bold", True, 500.0), box)
    assert (lines[1].style.size, lines[1].style.bold) == (10.0, False)
    texts = {number: document.page(number).text() for number in (1, 2, 3)}
    typography = {number: document.page(number).lines() for number in (1, 2, 3)}
    found = table_of_contents((), texts, typography=typography)
    expected = []
    for page, chapter in enumerate(CHAPTERS, start=1):
        long = f"Ways to see {chapter.lower()} and to know that the title goes on {chapter}"
        expected += [(1, chapter, page), (2, long, page)]
    assert [(entry.level, entry.title, entry.page) for entry in found] == expected


def test_lines_survive_json():
    lines = (Line("Größe 1", Style(10.5, "Sans", False, 700.2)), Line("図", Style(8.0, "", True, -3.0)))
    assert load_lines(dump_lines(lines)) == lines
    for damaged in ("", "[1]", '[["a"]]', '[["a",null,"b",1,2]]'):
        with pytest.raises(ValueError):
            load_lines(damaged)


def placed(text, left, top, right, height=0.012):
    return Line(text, Style(9.0, "Times", False, 0.0), (left, top, right, top + height))


def figures(*lines):
    texts = {1: "\n".join(line.text for line in lines)}
    return list_of_figures(texts, typography={1: lines})


def test_a_caption_has_the_place_of_its_lines():
    (caption,) = figures(
        placed("Figure 3: Rainfall by month, as", 0.2, 0.5, 0.7),
        placed("measured at the bridge.", 0.2, 0.514, 0.5),
        placed("The text goes on in a paragraph of its own.", 0.1, 0.56, 0.9),
    )
    assert (caption.text, caption.page) == ("Figure 3: Rainfall by month, as", 1)
    assert caption.box == pytest.approx((0.2, 0.5, 0.7, 0.526))
    # what is below and alike is not all of one
    captions = figures(
        placed("Table 1: Rain", 0.1, 0.1, 0.4),
        placed("Table 2: Snow", 0.1, 0.114, 0.4),
        placed("A heading", 0.1, 0.128, 0.4, height=0.03),
        placed("Table 3: Hail", 0.1, 0.3, 0.3),
        placed("in the column beside", 0.6, 0.314, 0.9),
    )
    boxes = [(0.1, 0.1, 0.4, 0.112), (0.1, 0.114, 0.4, 0.126), (0.1, 0.3, 0.3, 0.312)]
    assert [caption.box for caption in captions] == boxes
    (without,) = list_of_figures({1: "Figure 1: Rain"})
    assert without.box is None


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_places_are_those_of_the_page_as_it_is_shown(inbox, store_path, ingested, write_pdf, rotation):
    write_pdf(inbox / "a.pdf", ["Figure 1: Rainfall by month"], size=(400, 300), rotation=rotation)
    ingested(dpi=72)
    page = DocumentStore(store_path).document("a").page(1)
    (caption,) = list_of_figures({1: page.text()}, typography={1: page.lines()})
    left, top, right, bottom = (side * edge for side, edge in zip(caption.box, page.size * 2, strict=True))
    # all ink of the page is inside the box, and the box is no larger than the line
    ink = page.image().convert("L").point(lambda value: 255 * (value < 160)).getbbox()
    assert all((left <= ink[0] + 2, top <= ink[1] + 2, right >= ink[2] - 2, bottom >= ink[3] - 2))
    assert (right - left) * (bottom - top) < 1.8 * (ink[2] - ink[0]) * (ink[3] - ink[1])


RIVER = "The water level of the river was measured every morning at the bridge and written down."


def line(text: str, size: float, top: float = 0.1, font: str = MEASURED) -> Line:
    return Line(text, Style(size, font, False, 792 * (1 - top)), (0.1, top, 0.9, top + 0.01))


def scan() -> dict[int, list[Line]]:
    """Twelve pages of a manual; every size measures up to a twelfth more or less."""
    noise = random.Random(5)

    def measured(text: str, size: float, row: int) -> Line:
        return line(text, round(size * noise.uniform(0.92, 1.08), 1), 0.05 + 0.03 * row)

    pages = {}
    for page in range(1, 13):
        title = f"Rivers of the {['north', 'south', 'east', 'west'][page % 4]} {'abcdefghijkl'[page - 1]}"
        prose = [measured(f"{RIVER} {page} {row}", 10, row) for row in range(2, 20)]
        pages[page] = [measured(title, 17, 0), *prose[:9], measured(f"x = {page};", 13, 12), *prose[9:]]
    return pages


def test_sizes_alike_become_one_and_tell_the_outline_of_a_scan():
    pages = scan()
    assert len({line.style.size for lines in settled(pages).values() for line in lines}) == 3
    texts = {page: "\n".join(line.text for line in lines) for page, lines in pages.items()}
    headings = table_of_contents((), texts, typography=pages)
    assert [(heading.title, heading.page) for heading in headings] == [
        (lines[0].text, page) for page, lines in pages.items()
    ]


def test_the_head_of_a_table_on_a_scan_is_no_heading():
    noise, pages = random.Random(3), {}
    for page, letter in enumerate("abcdef", start=1):
        prose = [line("".join(noise.choices("abcdefgh ", k=120)), 10, row / 40) for row in range(3, 23)]
        table = [line(f"Region {letter} and sales", 16, 0.6), line(f"{letter}{letter} 12 4,5", 10, 0.63)]
        row = line(f"Part {letter} {letter}{letter} 74% 91%", 16, 0.66)
        pages[page] = [line(f"Rivers {letter}", 16, 0.02), *prose[:9], *table, row, *prose[9:]]
    texts = {page: "\n".join(each.text for each in lines) for page, lines in pages.items()}
    found = table_of_contents((), texts, typography=pages)
    assert [heading.title for heading in found] == [f"Rivers {letter}" for letter in "abcdef"]


def test_lines_of_a_text_layer_and_odd_sizes_stay_as_they_are():
    pages = {1: [line("A", 10.1, font="Times"), line("B", 10.3, font=""), Line("C")]}
    assert settled(pages) == pages
    mixed = {1: [line("A", 10.1, font="Times"), line("long body of a scan", 10.2), line("B", 10.6)]}
    assert [item.style.size for item in settled(mixed)[1]] == [10.1, 10.2, 10.2]
    odd = {1: [line("a", 0.0), line("b", -1.0), line("c", 1e-9), line("d", 900.0)], 2: []}
    assert [item.text for item in settled(odd)[1]] == ["a", "b", "c", "d"]
