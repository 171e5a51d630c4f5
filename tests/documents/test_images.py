from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.images import natural_key, read_page_image, split_page_name
from docagent_rl.documents.settings import RenderSettings

SETTINGS = RenderSettings(max_side=100)


def _open(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data))


def test_a_jpeg_keeps_its_bytes(tmp_path, write_image):
    path = write_image(tmp_path / "a.jpg", "navy", quality=70)
    assert read_page_image(path, SETTINGS) == (path.read_bytes(), (60, 40))


def test_a_large_jpeg_is_scaled_down(tmp_path, write_image):
    data, size = read_page_image(write_image(tmp_path / "a.jpg", size=(400, 200)), SETTINGS)
    assert size == (100, 50) == _open(data).size


def test_a_photograph_is_turned_upright(tmp_path):
    image = Image.new("RGB", (60, 40), "white")
    image.paste("red", (0, 0, 30, 40))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise: the left half becomes the top half
    image.save(tmp_path / "a.jpg", exif=exif, quality=95)
    data, size = read_page_image(tmp_path / "a.jpg", SETTINGS)
    assert size == (40, 60)
    assert _open(data).getpixel((20, 10))[1] < 60
    assert _open(data).getpixel((20, 50))[1] > 200
    assert _open(data).getexif().get(0x0112, 1) == 1


def test_transparency_is_laid_on_white(tmp_path):
    Image.new("RGBA", (20, 20), (0, 0, 0, 0)).save(tmp_path / "a.png")
    data, _ = read_page_image(tmp_path / "a.png", SETTINGS)
    assert _open(data).format == "JPEG"
    assert _open(data).getpixel((10, 10)) == (255, 255, 255)


@pytest.mark.parametrize("mode", ["L", "P", "1", "CMYK"])
def test_other_modes_become_rgb(tmp_path, mode):
    Image.new(mode, (20, 20)).save(tmp_path / "a.tif")
    data, _ = read_page_image(tmp_path / "a.tif", SETTINGS)
    assert _open(data).mode == "RGB"


def test_several_pages_in_one_file_are_refused(tmp_path):
    frames = [Image.new("RGB", (20, 20), colour) for colour in ("red", "blue")]
    frames[0].save(tmp_path / "a.tif", save_all=True, append_images=frames[1:])
    with pytest.raises(DocumentError, match=r"a\.tif holds 2 images"):
        read_page_image(tmp_path / "a.tif", SETTINGS)


@pytest.mark.parametrize("cut", [0, 10, 400])
def test_a_damaged_image_is_named(tmp_path, cut):
    Image.effect_noise((60, 60), 80).save(tmp_path / "a.jpg")
    data = (tmp_path / "a.jpg").read_bytes()
    assert len(data) > 500
    (tmp_path / "a.jpg").write_bytes(data[:cut])
    with pytest.raises(DocumentError, match=r"a\.jpg is not a readable image") as caught:
        read_page_image(tmp_path / "a.jpg", SETTINGS)
    assert "0x" not in str(caught.value)


@given(st.text(min_size=1), st.integers(1, 10**9))
def test_page_names_are_split_at_the_last_underscore(stem, page):
    assert split_page_name(f"{stem}_{page}") == (stem, page)


def test_natural_order():
    names = ["p10", "p9", "P1", "p09b", "2", "10", ""]
    assert sorted(names, key=natural_key) == ["", "2", "10", "P1", "p9", "p09b", "p10"]


@given(st.lists(st.text()))
def test_any_names_can_be_ordered(names):
    keys = sorted(natural_key(name) for name in names)
    assert [name for _, name in keys] == sorted(names, key=natural_key)
