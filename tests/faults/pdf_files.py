"""Sound PDFs, and PDFs that a reader should not be shown."""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable
from pathlib import Path

import pypdf
import reportlab
from PIL import Image
from reportlab.lib.utils import ImageReader
from reportlab.pdfbase import pdfmetrics
from reportlab.pdfbase.ttfonts import TTFont
from reportlab.pdfgen.canvas import Canvas

from tests.documents.bad_pages import write_pdf_objects

ALGORITHMS = ("RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256")


def drawn(pages: int, *, compress: bool) -> bytes:
    """Pages of words, a picture, shapes and an embedded font, with bookmarks."""
    fonts = Path(reportlab.__file__).parent / "fonts"
    pdfmetrics.registerFont(TTFont("Vera", str(fonts / "Vera.ttf")))
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=(200, 100), invariant=True, pageCompression=int(compress))
    noise = Image.effect_noise((40, 30), 80).convert("RGB")
    for number in range(1, pages + 1):
        canvas.bookmarkPage(str(number))
        canvas.addOutlineEntry(f"Part {number}", str(number), 0)
        canvas.setFont("Helvetica", 10)
        canvas.drawString(10, 85, f"page {number} of {pages} in words")
        canvas.setFont("Vera", 9)
        canvas.drawString(10, 70, "embedded letters")
        canvas.rect(10, 10, 50, 40, fill=1)
        canvas.drawImage(ImageReader(noise), 80, 10, 100, 50)
        canvas.showPage()
    canvas.save()
    return buffer.getvalue()


def encrypted(data: bytes, algorithm: str, user: str, owner: str) -> bytes:
    """The same document, encrypted; an empty `user` password opens it for everybody."""
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(data)))
    writer.encrypt(user, owner, algorithm=algorithm)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _objects(content: str, resources: str, *objects: str, size: str = "200 100") -> Callable[[Path], object]:
    return lambda path: write_pdf_objects(path, content, resources, *objects, size=size)


def _replaced(old: bytes, new: bytes) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        data = write_pdf_objects(path, "0 0 50 50 re f", "").read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new))

    return write


def _trailer(entries: bytes) -> Callable[[Path], object]:
    return _replaced(b"trailer\n<<", b"trailer\n<<" + entries)


def _picture(entries: str, data: str, colour: str = "/DeviceRGB") -> Callable[[Path], object]:
    head = f"<</Type/XObject/Subtype/Image/ColorSpace{colour}/BitsPerComponent 8{entries}"
    content = "q 200 0 0 100 0 0 cm /I Do Q 0 0 9 9 re f"
    body = f"{head}/Length {len(data)}>>stream\n{data}\nendstream"
    return _objects(content, "/XObject<</I 5 0 R>>", body)


def _bomb(path: Path) -> None:
    packed = zlib.compress(b"0 0 1 1 re f\n" * 1_000_000, 9).decode("latin-1")
    write_pdf_objects(path, packed, "")
    head = f"<</Length {len(packed)}>>".encode()
    path.write_bytes(path.read_bytes().replace(head, b"<</Filter/FlateDecode" + head[2:]))


_TYPE3 = (
    "<</Type/Font/Subtype/Type3/FontBBox[0 0 9 9]/FontMatrix[1 0 0 1 0 0]/FirstChar 65/LastChar 65/Widths[9]"
    "/Encoding<</Differences[65/a]>>/CharProcs<</a 6 0 R>>/Resources<</Font<</F 5 0 R>>>>>>"
)
_GLYPH = "<</Length 40>>stream\n9 0 d0 BT /F 1 Tf (AAAAAA) Tj ET 0 0 1 1 re f\nendstream"
_MASKED = (
    "<</Type/XObject/Subtype/Form/BBox[0 0 200 100]/Group<</S/Transparency>>"
    "/Resources<</ExtGState<</G 6 0 R>>>>/Length 26>>stream\n/G gs 0 0 50 50 re f       \nendstream"
)
_MASK = "<</Type/ExtGState/SMask<</S/Luminosity/G 5 0 R>>>>"

STRANGE: dict[str, Callable[[Path], object]] = {
    "page tree with a loop": _replaced(b"/Kids[3 0 R]/Count 1", b"/Kids[2 0 R]/Count 9"),
    "page tree of itself twice": _replaced(b"/Kids[3 0 R]/Count 1", b"/Kids[3 0 R 2 0 R]/Count 9"),
    "a million pages": _replaced(b"/Count 1>>", b"/Count 999999>>"),
    "minus one pages": _replaced(b"/Count 1>>", b"/Count -1>>"),
    "endless page": _objects("0 0 9 9 re f", "", size="1e40 1e40"),
    "page without area": _objects("0 0 9 9 re f", "", size="0 0"),
    "narrow page": _objects("0 0 9 9 re f", "", size="1 14000"),
    "nested arrays": _replaced(b"/MediaBox[", b"/X" + b"[" * 100_000 + b"/MediaBox["),
    "states saved without end": _objects("q " * 500_000 + "0 0 50 50 re f", ""),
    "fifty thousand shapes": _objects("0 0 m 9 99 l S\n" * 50_000, ""),
    "content of 13 MB": _bomb,
    "content whose length is itself": _replaced(b"<</Length 14>>", b"<</Length 4 0 R>>"),
    "content with a negative length": _replaced(b"<</Length 14>>", b"<</Length -5>>"),
    "letters that draw themselves": _objects("BT /F 9 Tf (A) Tj ET", "/Font<</F 5 0 R>>", _TYPE3, _GLYPH),
    "mask of itself": _objects("/M Do", "/XObject<</M 5 0 R>>", _MASKED, _MASK),
    "picture of 60000x60000": _picture("/Width 60000/Height 60000", "x"),
    "picture of JPEG 2000 noise": _picture("/Width 9/Height 9/Filter/JPXDecode", "\x00\x00\x00\x0cjP  " * 9),
    "picture of JBIG2 noise": _picture("/Width 9/Height 9/Filter/JBIG2Decode", "noise" * 20, "/DeviceGray"),
    "picture of thirty filters": _picture(f"/Width 9/Height 9/Filter[{'/ASCIIHexDecode' * 30}]", "00" * 99),
    "encrypted for a certificate": _trailer(b"/Encrypt<</Filter/Adobe.PubSec/V 4>>/ID[<00><00>]"),
    "encrypted by an unknown scheme": _trailer(b"/Encrypt<</Filter/Own.Scheme/V 1>>/ID[<00><00>]"),
    "encrypted without a key": _trailer(b"/Encrypt<</Filter/Standard/V 2/R 3/P -1>>/ID[<00><00>]"),
    "trailer before itself": _trailer(b"/Prev 9 "),
}
"""Files of one page by what is wrong with them; what takes for ever is tried in `tests/documents`."""
