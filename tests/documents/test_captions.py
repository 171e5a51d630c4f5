"""Places of captions; which lines are captions is tested with the contents."""

import pytest
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.contents import list_of_figures
from docagent_rl.documents.typography import Line, Style


def line(text, left, top, right, height=0.012):
    return Line(text, Style(9.0, "Times", False, 0.0), (left, top, right, top + height))


def figures(*lines):
    texts = {1: "\n".join(line.text for line in lines)}
    return list_of_figures(texts, typography={1: lines})


def test_a_caption_has_the_place_of_its_lines():
    (caption,) = figures(
        line("Figure 3: Rainfall by month, as", 0.2, 0.5, 0.7),
        line("measured at the bridge.", 0.2, 0.514, 0.5),
        line("The text goes on in a paragraph of its own.", 0.1, 0.56, 0.9),
    )
    assert (caption.text, caption.page) == ("Figure 3: Rainfall by month, as", 1)
    assert caption.box == pytest.approx((0.2, 0.5, 0.7, 0.526))


def test_what_is_below_and_alike_is_not_all_of_a_caption():
    captions = figures(
        line("Table 1: Rain", 0.1, 0.1, 0.4),
        line("Table 2: Snow", 0.1, 0.114, 0.4),
        line("A heading", 0.1, 0.128, 0.4, height=0.03),
        line("Table 3: Hail", 0.1, 0.3, 0.3),
        line("in the column beside", 0.6, 0.314, 0.9),
    )
    boxes = [(0.1, 0.1, 0.4, 0.112), (0.1, 0.114, 0.4, 0.126), (0.1, 0.3, 0.3, 0.312)]
    assert [caption.box for caption in captions] == boxes
    (without,) = list_of_figures({1: "Figure 1: Rain"})
    assert without.box is None


@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_places_are_those_of_the_page_as_it_is_shown(inbox, store_path, ingested, rotation):
    canvas = Canvas(str(inbox / "a.pdf"), pagesize=(400, 300))
    canvas.setPageRotation(rotation)
    canvas.setFont("Times-Roman", 12)
    canvas.drawString(40, 200, "Figure 1: Rainfall by month")
    canvas.save()
    ingested(dpi=72)
    page = DocumentStore(store_path).document("a").page(1)
    (caption,) = list_of_figures({1: page.text()}, typography={1: page.lines()})
    left, top, right, bottom = (side * edge for side, edge in zip(caption.box, page.size * 2, strict=True))
    # all ink of the page is inside the box, and the box is no larger than the line
    ink = page.image().convert("L").point(lambda value: 255 * (value < 160)).getbbox()
    assert left <= ink[0] + 2
    assert top <= ink[1] + 2
    assert right >= ink[2] - 2
    assert bottom >= ink[3] - 2
    assert (right - left) * (bottom - top) < 1.8 * (ink[2] - ink[0]) * (ink[3] - ink[1])
