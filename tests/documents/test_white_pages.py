"""White pages of sound documents are pages; those of damaged ones are reported."""

import io
import random
import zlib

import numpy as np
import pypdf
import pytest
from PIL import Image
from PIL.JpegImagePlugin import get_sampling

from docagent_rl.documents.render import is_white
from docagent_rl.documents.store import DocumentStore
from tests.documents.conftest import write_pdf_objects

FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
IMAGE = (
    "<</Type/XObject/Subtype/Image/Width 2/Height 1/ColorSpace/DeviceGray/BitsPerComponent "
    "8/Length 2>>"
    "stream\n\xff\xff\nendstream"
)


BLANK = {
    "empty": "",
    "nothing": "q Q",
    "white": "1 1 1 rg 0 0 200 100 re f",
    "spaces": "BT /F 10 Tf 10 50 Td ( ) Tj () Tj ET",
    "hidden": "BT /F 10 Tf 3 Tr 10 50 Td (hidden words) Tj ET",
    "white text": "BT /F 10 Tf 1 g 10 50 Td (white words) Tj ET",
    "image": "q 200 0 0 100 0 0 cm /I Do Q",
}


def test_a_page_that_is_blank_by_right_is_stored(inbox, store_path, ingested):
    for name, content in BLANK.items():
        resources = "/Font<</F 5 0 R>>/XObject<</I 6 0 R>>"
        write_pdf_objects(inbox / f"{name}.pdf", content, resources, FONT, IMAGE)
    writer = pypdf.PdfWriter(clone_from=inbox / "white.pdf")
    writer.add_blank_page(200, 100)
    writer.write(inbox / "no content.pdf")
    assert ingested(dpi=72).ingested == sorted([*BLANK, "no content"])
    store = DocumentStore(store_path)
    assert all(is_white(store.page(ref).image()) for ref in store.pages())


def _damaged_content(path):
    stream = zlib.compress(b"BT /F1 10 Tf 10 50 Td (words) Tj ET").decode("latin-1")
    broken = stream[:8] + "\x00" * 10 + stream[18:]
    write_pdf_objects(path, broken, "")
    length = f"<</Length {len(broken)}>>".encode()
    filtered = length.replace(b"<<", b"<</Filter/FlateDecode").ljust(len(length))
    path.write_bytes(path.read_bytes().replace(length, filtered))


def test_a_page_whose_content_is_damaged_or_gone_is_reported(inbox, ingested, write_pdf):
    write_pdf_objects(inbox / "gone.pdf", "/Gone Do", "")  # what it shows is not in the file
    _damaged_content(inbox / "damaged.pdf")
    tree = {
        b"/Kids[3 0 R]": (b"/Kids[1 0 R]", b"/Kidz[3 0 R]"),
        b"/Pages 2 0 R": (b"/Pages 1 0 R",),
    }
    broken = [(old, new) for old, changes in tree.items() for new in changes]
    for number, (old, new) in enumerate(broken):
        path = write_pdf_objects(inbox / f"tree{number}.pdf", "0 0 9 9 re f", "")
        path.write_bytes(path.read_bytes().replace(old, new))
    write_pdf(inbox / "good.pdf", ["x"])
    report = ingested(dpi=72)
    assert report.ingested == ["good"]
    assert ["page 1" in failure.reason for failure in report.failed] == [True] * (2 + len(broken))


@pytest.mark.parametrize("mode", ["RGB", "RGBX"])
def test_one_pixel_that_is_not_white_is_enough(mode):
    chance = random.Random(0)
    for number in range(30):
        pixels = np.full((207, 331, len(mode)), 255, np.uint8)
        pixels[chance.randrange(207), chance.randrange(331), chance.randrange(3)] -= number > 0
        page = Image.frombytes(mode, (331, 207), pixels.tobytes())
        assert is_white(page) is (number == 0)


@pytest.mark.parametrize(
    ("ground", "ink", "sampling"),
    [("1 1 1", "0 0 .8", 2), (".1 .55 .1", ".9 .1 .1", 0), ("0 0 .6", "1 1 0", 0)],
)
def test_colours_are_halved_on_pages_with_next_to_none(
    inbox, store_path, ingested, ground, ink, sampling
):
    print_ = "(small print of a page) Tj T* " * 2
    content = f"{ground} rg 0 0 200 100 re f {ink} rg BT /F 6 Tf 12 TL 20 90 Td {print_} ET"
    write_pdf_objects(inbox / "a.pdf", content, "/Font<</F 5 0 R>>", FONT)
    ingested(dpi=144)
    page = DocumentStore(store_path).document("a").page(1)
    with Image.open(io.BytesIO(page.image_bytes())) as stored:
        assert get_sampling(stored) == sampling
