"""White pages of sound documents are pages; those of damaged ones are reported."""

from __future__ import annotations

import io
import zlib
from random import Random

import pypdfium2
import pytest
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.documents import DocumentStore
from docagent_rl.documents.blank import damage
from docagent_rl.documents.colour import is_white
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.pdf import open_pdf
from tests.documents.bad_pages import write_pdf_objects


def _draw(kind: str) -> bytes:
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(200, 100), invariant=True, pageCompression=1)
    if kind == "text":
        for row in range(10):
            canvas.drawString(10, 90 - 8 * row, f"line {row} of words")
    elif kind == "image":
        noise = Image.effect_noise((50, 50), 80).convert("RGB")
        canvas.drawImage(ImageReader(noise), 0, 0, 200, 100)
    else:
        canvas.rect(20, 20, 100, 50, fill=1)
    canvas.save()
    return buffer.getvalue()


FONT = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
IMAGE = (
    "<</Type/XObject/Subtype/Image/Width 2/Height 1/ColorSpace/DeviceGray/BitsPerComponent 8/Length 2>>"
    "stream\n\xff\xff\nendstream"
)


@pytest.mark.parametrize(
    ("content", "resources"),
    [
        ("", ""),
        ("q Q", ""),
        ("1 1 1 rg 0 0 200 100 re f", ""),
        ("BT /F 10 Tf 10 50 Td ( ) Tj () Tj ET", "/Font<</F 5 0 R>>"),
        ("BT /F 10 Tf 3 Tr 10 50 Td (hidden words) Tj ET", "/Font<</F 5 0 R>>"),
        ("BT /F 10 Tf 1 g 10 50 Td (white words) Tj ET", "/Font<</F 5 0 R>>"),
        ("q 200 0 0 100 0 0 cm /I Do Q", "/XObject<</I 6 0 R>>"),
    ],
)
def test_a_page_that_is_blank_by_right_is_stored(inbox, store_path, ingested, content, resources):
    write_pdf_objects(inbox / "a.pdf", content, resources, FONT, IMAGE)
    report = ingested(dpi=72)
    assert (report.ingested, report.failed) == (["a"], [])
    assert is_white(DocumentStore(store_path).document("a").page(1).image())


def _damaged_content(path):
    stream = zlib.compress(b"BT /F1 10 Tf 10 50 Td (words) Tj ET").decode("latin-1")
    broken = stream[:8] + "\x00" * 10 + stream[18:]
    write_pdf_objects(path, broken, "")
    length = f"<</Length {len(broken)}>>".encode()
    filtered = length.replace(b"<<", b"<</Filter/FlateDecode").ljust(len(length))
    path.write_bytes(path.read_bytes().replace(length, filtered))


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_pdf_objects(path, "/Gone Do", ""),  # what it shows is not in the file
        _damaged_content,
    ],
)
def test_a_page_whose_content_is_damaged_or_gone_is_reported(inbox, ingested, write_pdf, write):
    write(inbox / "a.pdf")
    write_pdf(inbox / "good.pdf", ["x"])
    report = ingested(dpi=72)
    assert report.ingested == ["good"]
    assert "page 1 comes out white" in report.failed[0].reason


@pytest.mark.parametrize("kind", ["text", "image", "path"])
def test_most_white_pages_of_damaged_documents_are_seen(tmp_path, kind):
    """Some cannot be: a page moved out of its box by one changed number is sound."""
    whole, random = _draw(kind), Random(3)
    white = seen = 0
    for _ in range(120):
        data = bytearray(whole)
        at = random.randrange(len(data))
        if random.random() < 0.5:
            del data[at : at + random.randint(1, 60)]
        else:
            data[at : at + 20] = bytes(len(data[at : at + 20]))
        (tmp_path / "a.pdf").write_bytes(data)
        try:
            with open_pdf(tmp_path / "a.pdf") as pdf:
                with pdf.page(1) as page:
                    image = page.render(scale=1).to_pil().convert("RGB")
                if is_white(image):
                    white += 1
                    seen += damage(pdf, 1) is not None
        except (DocumentError, pypdfium2.PdfiumError):
            continue
    assert white >= 5
    assert seen >= 0.8 * white
