"""Pictures of text, and PDFs of them."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path

import matplotlib
import numpy as np
from PIL import Image, ImageDraw, ImageFont
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

FONT = Path(matplotlib.__file__).parent / "mpl-data/fonts/ttf/DejaVuSans.ttf"
PAGE = (400, 260)
"""(width, height) of a page in points."""
TEXT = ("The annual report of Norvale", "Revenue rose to 48 million", "Costs fell by seven percent")
_SCALE = 2


@cache
def font(points: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(FONT), points * _SCALE)


def draw_text(lines: Sequence[str], points: int = 14, size: tuple[int, int] = PAGE) -> Image.Image:
    """Draw black lines of text on white, at two pixels per point (144 dpi)."""
    image = Image.new("RGB", (size[0] * _SCALE, size[1] * _SCALE), "white")
    draw = ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((20 * _SCALE, (20 + 2 * points * number) * _SCALE), line, "black", font(points))
    return image


def write_scan(path: Path, pages: Sequence[Sequence[str]], *, stamp: str = "") -> Path:
    """Return a PDF of pictures, one per page; `stamp` is real text on each."""
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=PAGE, invariant=True)
    for lines in pages:
        if lines:
            canvas.drawImage(ImageReader(draw_text(lines)), 0, 0, *PAGE)
        if stamp:
            canvas.setFont("Helvetica", 6)
            canvas.drawString(20, 8, stamp)
        canvas.showPage()
    canvas.save()
    return path


def write_layer(path: Path, lines: Sequence[str], *, private: bool = False) -> Path:
    """Return a PDF of real text in an embedded font; its ToUnicode map may lead to the private
    area.
    """
    pdfmetrics.registerFont(TTFont("Scan", str(FONT)))
    path.parent.mkdir(parents=True, exist_ok=True)
    canvas = Canvas(str(path), pagesize=PAGE, pageCompression=0, invariant=True)
    canvas.setFont("Scan", 12)
    for number, line in enumerate(lines):
        canvas.drawString(20, PAGE[1] - 30 - 24 * number, line)
    canvas.save()
    data = path.read_bytes()
    if not private:
        return path
    for first, last in (("a", "z"), ("A", "Z")):
        for code in range(ord(first), ord(last) + 1):
            old, new = f"<{code:02X}> <{code:04X}>", f"<{code:02X}> <{0xE000 + code:04X}>"
            assert old.encode() in data
            # in place of the same length: the table of objects stays right
            data = data.replace(old.encode(), new.encode().lower().replace(b"<e0", b"<E0"))
    path.write_bytes(data)
    return path


def quick_read(image: Image.Image) -> str:
    """Return a line of TEXT for each band of ink, as a fast replacement of the OCR engine."""
    dark = np.asarray(image.convert("L")).min(axis=1) < 128
    bands = int((np.diff(dark.astype(int), prepend=0) == 1).sum())
    return "\n".join(TEXT[n % len(TEXT)] for n in range(bands))
