import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.documents.drawn import Resample, shown_name
from docagent_rl.documents.shown import ShownRasters
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.images import (
    Fill,
    ImageRef,
    ImageSheet,
    SheetLabel,
    Tile,
    jpeg,
    render,
)
from docagent_rl.envs.views import page_view


@pytest.fixture
def page(store):
    return store.page(PageRef("K", 2))


def ref_of(page, raster, size):
    return ImageRef(page.ref, page.image_hash, raster, size)


def test_resampling(store, page):
    plain = ref_of(page, (0, 0, *page.size), (181, 128))
    sharp = dataclasses.replace(plain, resample=Resample.LANCZOS)
    assert plain.key != sharp.key
    assert (plain.to_dict()["resample"], sharp.to_dict()["resample"]) == ("bicubic", "lanczos")
    for ref, way in ((plain, Image.Resampling.BICUBIC), (sharp, Image.Resampling.LANCZOS)):
        assert render(ref, store).tobytes() == page.image().resize((181, 128), way).tobytes()


def test_nothing_bleeds_in_from_outside_the_crop(store, page):
    """The grey box of the page, cut inside its border, is flat at any size."""
    width, height = page.size
    left, right = int(0.60 * width), int(0.75 * width)
    top, bottom = int(0.60 * height), int(0.75 * height)
    pixels = np.asarray(render(ref_of(page, (left, top, right, bottom), (900, 700)), store))
    assert pixels.std() < 2
    assert abs(pixels.mean() - 0.2 * 255) < 4


def test_another_picture_than_the_reference_means(store, page, keeping):
    ref = ref_of(page, (0, 0, *page.size), (100, 80))
    for where in (store, keeping[0]):
        render(ref, where)
        with pytest.raises(UserError, match="K#2"):
            render(dataclasses.replace(ref, page_hash="0" * 64), where)
        with pytest.raises(UserError):
            render(dataclasses.replace(ref, page=PageRef("Z", 1)), where)


@pytest.fixture
def keeping(store, tmp_path):
    folder = tmp_path / "shown"
    return DocumentStore(store.path, shown=ShownRasters([folder], capacity=1 << 30)), folder


def kept_in(folder):
    return sorted(path.stem for path in folder.rglob("*.rgb"))


def test_whole_pages_are_drawn_once_for_all_and_are_the_same_pixels(
    store, page, keeping, monkeypatch
):
    keeper, folder = keeping
    refs = [
        page_view(page, DisplayRule(), 1).image,
        dataclasses.replace(
            ref_of(page, (0, 0, *page.size), (181, 128)), resample=Resample.LANCZOS
        ),
    ]
    plain = [render(ref, store).tobytes() for ref in refs]
    # crops and pages as they are stored are not kept
    render(ref_of(page, (0, 0, *page.size), page.size), keeper)
    render(ref_of(page, (0, 0, 100, 100), (50, 50)), keeper)
    assert [render(ref, keeper).tobytes() for ref in refs] == plain
    assert kept_in(folder) == sorted(
        shown_name(ref.page_hash, page.size, ref.size, ref.resample) for ref in refs
    )
    monkeypatch.setattr(DocumentStore, "decode", lambda *_: pytest.fail("drawn again"))
    other = DocumentStore(store.path, shown=ShownRasters([folder], capacity=1 << 30))
    assert [render(ref, other).tobytes() for ref in refs] == plain


RED, BLUE = (200, 0, 0), (0, 0, 200)


def test_a_sheet_is_drawn_from_back_to_front(store, page):
    tile = ref_of(page, (0, 0, *page.size), (40, 30))
    sheet = ImageSheet(
        canvas=(100, 60),
        size=(100, 60),
        tiles=(Tile(tile, (30, 20)),),
        fills=(Fill((0, 0, 100, 10), RED), Fill((25, 15, 75, 55), BLUE)),
        labels=(SheetLabel("7", (60, 40, 90, 60)),),
        background=(10, 20, 30),
    )
    drawn = render(sheet, store)
    assert drawn.size == (100, 60)
    assert [drawn.getpixel(at) for at in ((0, 0), (99, 9), (99, 10), (0, 59))] == [
        RED, RED, (10, 20, 30), (10, 20, 30),
    ]  # fmt: skip
    assert [drawn.getpixel(at) for at in ((25, 15), (29, 54), (74, 15), (24, 15), (75, 15))] == [
        BLUE, BLUE, BLUE, (10, 20, 30), (10, 20, 30),
    ]  # fmt: skip
    piece = drawn.crop((30, 20, 60, 50))
    assert piece.tobytes() == render(tile, store).crop((0, 0, 30, 30)).tobytes()
    # the label covers the tile's corner: white, with black in the middle
    assert [drawn.getpixel(at) for at in ((60, 40), (89, 59))] == [(255, 255, 255)] * 2
    assert drawn.getpixel((90, 40)) == (10, 20, 30)
    label = np.asarray(drawn.crop((60, 40, 90, 60)).convert("L"))
    rows, columns = np.nonzero(label < 128)
    assert abs(rows.mean() - 9.5) < 2
    assert abs(columns.mean() - 14.5) < 2
    half = dataclasses.replace(sheet, size=(50, 30))
    expected = drawn.resize((50, 30), Image.Resampling.BICUBIC)
    assert render(half, store).tobytes() == expected.tobytes()


def test_a_sheet_is_what_is_drawn_on_it(store, page):
    tile = Tile(ref_of(page, (0, 0, *page.size), (40, 30)), (0, 0))
    other = Tile(ref_of(store.page(PageRef("K", 1)), (0, 0, *page.size), (40, 30)), (50, 0))
    sheet = ImageSheet((100, 60), (100, 60), (other, tile, tile))
    assert sheet.pages == (PageRef("K", 1), PageRef("K", 2))
    changes = {
        "canvas": (100, 61),
        "size": (50, 30),
        "tiles": (tile, other, tile),
        "fills": (Fill((0, 0, 1, 1), RED),),
        "labels": (SheetLabel("1", (0, 0, 9, 9)),),
        "background": RED,
    }
    keys = {dataclasses.replace(sheet, **{name: value}).key for name, value in changes.items()}
    assert len({sheet.key, *keys}) == 1 + len(changes)
    plain = ImageSheet((100, 60), (100, 60), (other, tile, tile), background=(255, 255, 255))
    assert sheet.key == plain.key
    labels = [dataclasses.replace(sheet, labels=(label,)).key for label in (
        SheetLabel("1", (0, 0, 9, 9)), SheetLabel("1", (0, 0, 9, 9), font_px=18), SheetLabel("1",
        (0, 0, 9, 9), font_px=17),
    )]  # fmt: skip
    assert labels[0] == labels[1] != labels[2]
    written = sheet.to_dict()
    assert (written["canvas"], written["tiles"][1]) == (
        (100, 60),
        {"image": tile.image.to_dict(), "at": (0, 0)},
    )


def test_a_picture_s_key_is_its_content(page):
    ref = ref_of(page, (0, 0, *page.size), (40, 30))
    others = [
        dataclasses.replace(ref, page_hash="0" * 64),
        dataclasses.replace(ref, raster=(0, 0, 9, 9)),
        dataclasses.replace(ref, size=(30, 40)),
    ]
    assert len({ref.key, *(each.key for each in others)}) == 4
    # the page's name is none of it
    assert dataclasses.replace(ref, page=PageRef("Z", 1)).key == ref.key
    assert ref.pages == (page.ref,)
    assert ref.to_dict()["page"] == "K#2"


@pytest.mark.parametrize(
    ("size", "most", "expected"),
    [((200, 100), None, (200, 100)), ((200, 100), 20_000, (200, 100)), ((200, 100), 5_000, (100,
    50)),
     ((200, 100), 19_999, (199, 99)), ((4000, 1), 1000, (2000, 1)), ((1, 4000), 1000, (1, 2000))],
)  # fmt: skip
def test_files_for_models_and_browsers_are_reduced(size, most, expected):
    image = Image.effect_noise(size, 50)
    content = jpeg(image, most_pixels=most)
    read = Image.open(io.BytesIO(content))
    assert (read.format, read.mode, read.size) == ("JPEG", "RGB", expected)
    assert len(jpeg(image, quality=20, most_pixels=most)) < len(content)


def test_a_label_is_black_text_on_a_white_box():
    box = (20, 10, 80, 70)
    sheets = [
        ImageSheet(
            (100, 90), (100, 90), (), labels=(SheetLabel("H", box, font_px=size),), background=RED
        )
        for size in (20, 50)
    ]
    small, large = (np.asarray(render(sheet, None)) for sheet in sheets)
    left, top, right, bottom = box
    for pixels in (small, large):
        inside = np.zeros((90, 100), dtype=bool)
        inside[top:bottom, left:right] = True
        assert (pixels[~inside] == RED).all()
        # round the letter it is white; its strokes are wider than a pixel
        assert (pixels[top + 1, left:right] == 255).all()
        assert (pixels[inside].min(axis=0) == 0).all()
        assert (np.ptp(pixels[inside], axis=1) == 0).all()

    def height(pixels: np.ndarray) -> int:
        dark = (pixels[top:bottom, left:right, 0] < 128).any(axis=1)
        return int(dark.sum())

    assert 2 * height(small) < height(large) < 50
