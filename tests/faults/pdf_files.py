"""Undamaged PDFs, and PDFs that a reader should refuse."""

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

from tests.documents.conftest import write_pdf_objects

ALGORITHMS = ("RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256")


def drawn(pages: int, *, compress: bool) -> bytes:
    """Return pages of words, a picture, shapes and an embedded font, with bookmarks."""
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
    """Return the same document encrypted; an empty `user` password opens it for everybody."""
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(data)))
    writer.encrypt(user, owner, algorithm=algorithm)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _objects(
    content: str, resources: str, *objects: str, size: str = "200 100"
) -> Callable[[Path], object]:
    return lambda path: write_pdf_objects(path, content, resources, *objects, size=size)


def _replaced(old: bytes, new: bytes) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        data = write_pdf_objects(path, "0 0 50 50 re f", "").read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new))

    return write


def _trailer(entries: bytes) -> Callable[[Path], object]:
    return _replaced(b"trailer\n<<", b"trailer\n<<" + entries)


def _picture(entries: str, data: str) -> Callable[[Path], object]:
    head = f"<</Type/XObject/Subtype/Image/ColorSpace/DeviceRGB/BitsPerComponent 8{entries}"
    content = "q 200 0 0 100 0 0 cm /I Do Q 0 0 9 9 re f"
    body = f"{head}/Length {len(data)}>>stream\n{data}\nendstream"
    return _objects(content, "/XObject<</I 5 0 R>>", body)


def _bomb(path: Path) -> None:
    packed = zlib.compress(b"0 0 1 1 re f\n" * 1_000_000, 9).decode("latin-1")
    write_pdf_objects(path, packed, "")
    head = f"<</Length {len(packed)}>>".encode()
    path.write_bytes(path.read_bytes().replace(head, b"<</Filter/FlateDecode" + head[2:]))


STRANGE: dict[str, Callable[[Path], object]] = {
    "page tree with a loop": _replaced(b"/Kids[3 0 R]/Count 1", b"/Kids[2 0 R]/Count 9"),
    "a million pages": _replaced(b"/Count 1>>", b"/Count 999999>>"),
    "minus one pages": _replaced(b"/Count 1>>", b"/Count -1>>"),
    "page without area": _objects("0 0 9 9 re f", "", size="0 0"),
    "narrow page": _objects("0 0 9 9 re f", "", size="1 14000"),
    "nested arrays": _replaced(b"/MediaBox[", b"/X" + b"[" * 100_000 + b"/MediaBox["),
    "states saved without end": _objects("q " * 500_000 + "0 0 50 50 re f", ""),
    "fifty thousand shapes": _objects("0 0 m 9 99 l S\n" * 50_000, ""),
    "content of 13 MB": _bomb,
    "content whose length is itself": _replaced(b"<</Length 14>>", b"<</Length 4 0 R>>"),
    "picture of 60000x60000": _picture("/Width 60000/Height 60000", "x"),
    "picture of JPEG 2000 noise": _picture(
        "/Width 9/Height 9/Filter/JPXDecode", "\x00\x00\x00\x0cjP  " * 9
    ),
    "picture of thirty filters": _picture(
        f"/Width 9/Height 9/Filter[{'/ASCIIHexDecode' * 30}]", "00" * 99
    ),
    "encrypted for a certificate": _trailer(b"/Encrypt<</Filter/Adobe.PubSec/V 4>>/ID[<00><00>]"),
    "encrypted by an unknown scheme": _trailer(b"/Encrypt<</Filter/Own.Scheme/V 1>>/ID[<00><00>]"),
    "encrypted without a key": _trailer(b"/Encrypt<</Filter/Standard/V 2/R 3/P -1>>/ID[<00><00>]"),
    "trailer before itself": _trailer(b"/Prev 9 "),
}
"""Files of one page by what is wrong with them; what takes for ever is tried in
`tests/documents`.
"""
