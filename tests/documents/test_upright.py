"""Pages that lie on a side or upside down, and those that only seem to."""

import pytest
from PIL import Image, ImageDraw

from docagent_rl.documents import upright
from docagent_rl.documents.manifest import Finding
from docagent_rl.documents.ocr import Piece
from docagent_rl.documents.references import Rotation, turned_box
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upright import read_scan, rotate
from tests.documents.scans import TEXT, draw_text, font

BACK = {
    Rotation.NONE: Rotation.NONE,
    Rotation.RIGHT: Rotation.LEFT,
    Rotation.OVER: Rotation.OVER,
    Rotation.LEFT: Rotation.RIGHT,
}


@pytest.mark.slow
@pytest.mark.parametrize("turn", Rotation)
def test_a_page_is_read_whichever_way_it_lies(turn):
    scan = read_scan(rotate(draw_text(TEXT), turn))
    assert scan == ("\n".join(TEXT), BACK[turn], False)


@pytest.mark.slow
def test_text_and_picture_are_stored_upright_and_boxes_go_with_them(inbox, store_path, ingested):
    picture = draw_text(TEXT)
    (inbox / "deck").mkdir()
    for number, turn in enumerate(Rotation, start=1):
        rotate(picture, turn).save(inbox / "deck" / f"{number}.png")
    ingested(dpi=144)
    document = DocumentStore(store_path).document("deck")
    ink = picture.convert("L").point(lambda value: 255 * (value < 128)).getbbox()
    assert ink is not None
    for number, turn in enumerate(Rotation, start=1):
        page = document.page(number)
        assert (page.text(), page.size, page.turned) == ("\n".join(TEXT), picture.size, BACK[turn])
        assert page.findings == ((Finding.TURNED,) if turn else ())
        shown = page.image().convert("L").point(lambda value: 255 * (value < 128)).getbbox()
        assert shown == pytest.approx(ink, abs=2)


def test_a_box_turns_with_its_page():
    box = (0.1, 0.2, 0.4, 0.3)
    assert turned_box(box, Rotation.NONE) == box
    assert turned_box(box, Rotation.RIGHT) == pytest.approx((0.7, 0.1, 0.8, 0.4))
    assert turned_box(box, Rotation.OVER) == pytest.approx((0.6, 0.7, 0.9, 0.8))
    assert turned_box(turned_box(box, Rotation.RIGHT), Rotation.LEFT) == pytest.approx(box)


@pytest.mark.slow
def test_labels_that_stand_on_end_turn_no_page():
    page = draw_text(TEXT[:2])
    label = draw_text(
        ["Number of deaths", "per 100,000 people", "in all of Norvale"], size=(260, 160)
    )
    page.paste(rotate(label, Rotation.LEFT).resize((160, 260)), (600, 200))
    assert read_scan(page).turn is Rotation.NONE


@pytest.mark.slow
def test_what_is_no_text_turns_no_page():
    noise = Image.effect_noise((400, 300), 90).convert("RGB")
    drawing = Image.new("RGB", (400, 300), "white")
    ImageDraw.Draw(drawing).text((20, 20), "7", "black", font(14))
    for picture in (noise, drawing):
        assert read_scan(picture).turn is Rotation.NONE


def _pieces(
    score: float, *, tall: bool, count: int = 9, text: str = "a line of some words"
) -> list[Piece]:
    return [Piece(text, (0.1, 0.1 * n, 0.9, 0.1 * n + 0.05), score, tall) for n in range(count)]


@pytest.mark.parametrize(
    ("first", "second", "turn", "doubtful"),
    [
        (_pieces(0.98, tall=False), [], Rotation.NONE, False),
        (_pieces(0.6, tall=False), _pieces(0.98, tall=False), Rotation.OVER, False),
        (_pieces(0.6, tall=True), _pieces(0.98, tall=False), Rotation.RIGHT, False),
        (_pieces(0.98, tall=True), _pieces(0.97, tall=False), Rotation.LEFT, False),
        # the other way is little better, is no better than doubtful, says little, or stands on end
        # as well
        (_pieces(0.8, tall=False), _pieces(0.9, tall=False), Rotation.NONE, False),
        (_pieces(0.5, tall=False), _pieces(0.8, tall=False), Rotation.NONE, True),
        (
            _pieces(0.5, tall=False),
            _pieces(0.98, tall=False, count=1, text="few"),
            Rotation.NONE,
            True,
        ),
        (_pieces(0.98, tall=True), _pieces(0.98, tall=True), Rotation.NONE, False),
        # a few labels on end
        (
            _pieces(0.98, tall=False, count=2) + _pieces(0.98, tall=True, count=2),
            [],
            Rotation.NONE,
            False,
        ),
        ([], [], Rotation.NONE, False),
    ],
)
def test_a_page_is_turned_when_it_then_reads_much_better_and_lies(
    monkeypatch, first, second, turn, doubtful
):
    readings = iter((first, second))
    monkeypatch.setattr(upright, "read_pieces", lambda image: next(readings))
    scan = read_scan(Image.new("RGB", (40, 30)))
    assert (scan.turn, scan.is_doubtful) == (turn, doubtful)


@pytest.mark.parametrize(("legible", "turn"), [(0.98, Rotation.NONE), (0.4, Rotation.LEFT)])
def test_columns_of_chinese_are_no_lines_on_a_side(monkeypatch, legible, turn):
    """The engine reads both, but only upright characters stay legible when they are put side by
    side.
    """
    readings = iter(_pieces(0.98, tall=tall, text="天地玄黄宇宙洪荒") for tall in (True, False))
    monkeypatch.setattr(upright, "read_pieces", lambda image: next(readings))
    monkeypatch.setattr(upright, "line_score", lambda image: legible)
    assert read_scan(Image.new("RGB", (40, 30))).turn is turn
