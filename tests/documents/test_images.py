from __future__ import annotations

import io
import os
import struct
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import EpsImagePlugin, Image

from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.images import FORMATS, natural_key, read_page_image, split_page_name
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


def test_a_format_that_is_not_listed_is_never_decoded(tmp_path, monkeypatch):
    """PostScript goes to Ghostscript in Pillow, whatever the file's name says."""
    called = tmp_path / "called"
    ghostscript = tmp_path / "gs"
    ghostscript.write_text(f"#!/bin/sh\ntouch {called}\nexit 1\n")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    script = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 20 20\n%%EndComments\nshowpage\n%%EOF\n"
    (tmp_path / "a.png").write_bytes(script)
    with pytest.raises(DocumentError, match=r"a\.png is not a readable image .*JPEG, PNG, WEBP, TIFF, BMP"):
        read_page_image(tmp_path / "a.png", SETTINGS)
    assert not called.exists()


@pytest.mark.parametrize("format", ["GIF", "PPM", "ICO", "TGA", "SGI"])
def test_other_formats_under_an_image_name_are_refused(tmp_path, format):
    Image.new("RGB", (20, 20)).save(tmp_path / "a.png", format=format)
    with pytest.raises(DocumentError, match=r"a\.png is not a readable image"):
        read_page_image(tmp_path / "a.png", SETTINGS)


@pytest.mark.parametrize("format", FORMATS)
def test_mutated_images_are_read_or_named(tmp_path, format):
    """Whatever a decoder raises on damage is the file's error."""
    buffer = io.BytesIO()
    Image.effect_noise((24, 16), 80).convert("RGB").save(buffer, format=format)
    whole = buffer.getvalue()
    random, refused = Random(7), 0
    for _ in range(60):
        data = bytearray(whole)
        for _ in range(random.randint(1, 6)):
            # headers and tag tables are at the ends
            position = random.choice([random.randrange(64), -1 - random.randrange(200)]) % len(data)
            data[position] = random.randrange(256)
        (tmp_path / "a.png").write_bytes(data)
        try:
            read_page_image(tmp_path / "a.png", SETTINGS)
        except DocumentError as error:
            refused += "a.png" in str(error)
    assert refused > 0


def test_a_tag_of_the_wrong_type_is_named(tmp_path):
    Image.new("RGB", (8, 8)).save(tmp_path / "a.tif")
    data = bytearray((tmp_path / "a.tif").read_bytes())
    entry = data.index(struct.pack("<HHI", 273, 4, 1))  # StripOffsets: a long becomes a text
    data[entry + 2 : entry + 4] = struct.pack("<H", 2)
    (tmp_path / "a.tif").write_bytes(data)
    with pytest.raises(DocumentError, match=r"a\.tif is not a readable image"):
        read_page_image(tmp_path / "a.tif", SETTINGS)


def test_an_image_that_unpacks_to_too_much_is_named(tmp_path):
    with Image.new("1", (20_000, 10_000)) as image:
        image.save(tmp_path / "a.png")
    with pytest.raises(DocumentError, match=r"a\.png .*pixels"):
        read_page_image(tmp_path / "a.png", SETTINGS)


def test_pixels_that_do_not_match_their_checksum_are_refused(tmp_path):
    """The decoder shows what is left of them without a word."""
    buffer = io.BytesIO()
    Image.effect_noise((60, 40), 90).save(buffer, "PNG")
    whole = buffer.getvalue()
    start = whole.index(b"IDAT") + 4
    (length,) = struct.unpack(">I", whole[start - 8 : start - 4])
    random, path = Random(1), tmp_path / "a.png"
    for _ in range(40):
        data = bytearray(whole)
        data[start + random.randrange(length)] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        with pytest.raises(DocumentError, match=r"a\.png is not a readable image"):
            read_page_image(path, RenderSettings())
