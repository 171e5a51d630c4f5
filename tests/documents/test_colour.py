from __future__ import annotations

import io
import random

import numpy as np
import pytest
from PIL import Image
from PIL.JpegImagePlugin import get_sampling
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.colour import Chroma, Lattice, is_white


@pytest.mark.parametrize("mode", ["RGB", "RGBX"])
def test_one_pixel_that_is_not_white_is_enough(mode):
    chance = random.Random(0)
    width, height = size = (331, 207)
    assert is_white(Image.new(mode, size, "white"))
    assert Lattice(Image.new(mode, size, "white")).is_white()
    for _ in range(50):
        pixels = np.full((height, width, len(mode)), 255, np.uint8)
        pixels[chance.randrange(height), chance.randrange(width), chance.randrange(3)] = 254
        page = Image.frombytes(mode, size, pixels.tobytes())
        assert not is_white(page)
        assert not Lattice(page).is_white()


def test_the_fourth_byte_of_a_pixel_has_no_meaning():
    pixels = np.full((40, 30, 4), 255, np.uint8)
    pixels[..., 3] = np.arange(30)
    page = Image.frombytes("RGBX", (30, 40), pixels.tobytes())
    assert is_white(page)
    assert Lattice(page).chroma() is Chroma.HALF


@pytest.mark.parametrize("side", [1, 5, 400])
def test_pages_of_any_size_have_a_lattice(side):
    assert Lattice(Image.new("RGB", (side, 3), "white")).is_white()
    assert Lattice(Image.new("RGB", (side, 3), (200, 0, 0))).chroma() is Chroma.FULL


@pytest.mark.parametrize(
    ("ground", "ink", "sampling"),
    [
        ((1, 1, 1), (0, 0, 0), 2),
        ((1, 1, 1), (0, 0, 0.8), 2),
        ((0.1, 0.55, 0.1), (0.9, 0.1, 0.1), 0),
        ((0, 0, 0.6), (1, 1, 0), 0),
    ],
)
def test_colours_are_halved_on_pages_with_next_to_none(inbox, store_path, ingested, ground, ink, sampling):
    canvas = Canvas(str(inbox / "a.pdf"), pagesize=(300, 300), invariant=True)
    canvas.setFillColorRGB(*ground)
    canvas.rect(0, 0, 300, 300, fill=1, stroke=0)
    canvas.setFillColorRGB(*ink)
    canvas.setFont("Helvetica", 6)
    for row in range(10):
        canvas.drawString(20, 20 + 12 * row, "small print of a page")
    canvas.save()
    ingested(dpi=144)
    page = DocumentStore(store_path).document("a").page(1)
    with Image.open(io.BytesIO(page.image_bytes())) as stored:
        assert get_sampling(stored) == sampling
