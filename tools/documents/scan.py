"""Turn a PDF into a scan: grey page images, slightly crooked and noisy, without text."""

from __future__ import annotations

import io

import numpy as np
import pypdfium2
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfgen.canvas import Canvas

TILT = 0.6
"""Maximum rotation of a page in degrees."""
NOISE = 4.0
"""Standard deviation of the noise, in steps of 255."""
QUALITY = 80
"""Quality of the JPEG pictures."""


def scan_pdf(pdf: bytes, *, dpi: int, seed: int, title: str) -> bytes:
    """Rasterise all pages of a PDF into a PDF of images.

    With the same versions of pdfium, Pillow and libjpeg, the same input gives the same bytes.

    Args:
        pdf: the document.
        dpi: pixels per inch.
        seed: for the tilt of each page and the noise.
        title: title of the new document.

    Returns:
        a PDF with the same number and sizes of pages, without text.
    """
    rng = np.random.default_rng(seed)
    out = io.BytesIO()
    canvas = Canvas(out, invariant=1, pageCompression=0)
    canvas.setTitle(title)
    document = pypdfium2.PdfDocument(pdf)
    try:
        for page in document:
            width, height = page.get_size()
            drawn = page.render(scale=dpi / 72, grayscale=True).to_pil()
            canvas.setPageSize((width, height))
            canvas.drawImage(ImageReader(_jpeg(_scanned(drawn, rng))), 0, 0, width, height)
            canvas.showPage()
            page.close()
    finally:
        document.close()
    canvas.save()
    return out.getvalue()


def _scanned(page: Image.Image, rng: np.random.Generator) -> Image.Image:
    tilt = float(rng.uniform(-TILT, TILT))
    turned = page.convert("L").rotate(tilt, resample=Image.Resampling.BICUBIC, fillcolor=255)
    noise = rng.normal(0.0, NOISE, size=(turned.height, turned.width))
    return Image.fromarray(np.clip(np.asarray(turned) + noise, 0, 255).astype(np.uint8))


def _jpeg(picture: Image.Image) -> io.BytesIO:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=QUALITY)
    file.seek(0)
    return file
