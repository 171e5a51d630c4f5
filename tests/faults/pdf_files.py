"""Sound PDFs, and PDFs that a reader should not be shown."""

from __future__ import annotations

import io
import struct
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

from tests.documents.bad_pages import write_endless, write_pdf_objects, write_recursive

SIZE = (200, 100)
ALGORITHMS = ("RC4-40", "RC4-128", "AES-128", "AES-256-R5", "AES-256")


def drawn(pages: int, *, compress: bool) -> bytes:
    """Pages of words, a picture, shapes and an embedded font, with bookmarks."""
    fonts = Path(reportlab.__file__).parent / "fonts"
    pdfmetrics.registerFont(TTFont("Vera", str(fonts / "Vera.ttf")))
    buffer = io.BytesIO()
    canvas = Canvas(buffer, pagesize=SIZE, invariant=True, pageCompression=int(compress))
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


def with_object_streams(data: bytes) -> bytes:
    """The same document with its objects in object streams and a cross-reference stream."""
    reader = pypdf.PdfReader(io.BytesIO(data))
    writer = pypdf.PdfWriter(clone_from=reader)
    buffer = io.BytesIO()
    writer.write(buffer)
    reader = pypdf.PdfReader(io.BytesIO(buffer.getvalue()))
    return _packed(
        {number: reader.get_object(number) for number in range(1, reader.trailer["/Size"])}, reader
    )


def encrypted(data: bytes, algorithm: str, user: str, owner: str) -> bytes:
    """The same document, encrypted; an empty `user` password opens it for everybody."""
    writer = pypdf.PdfWriter(clone_from=pypdf.PdfReader(io.BytesIO(data)))
    writer.encrypt(user, owner, algorithm=algorithm)
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


def _packed(objects: dict[int, object], reader: pypdf.PdfReader) -> bytes:
    streams = {n: item for n, item in objects.items() if isinstance(item, pypdf.generic.StreamObject)}
    plain = {n: item for n, item in objects.items() if n not in streams and item is not None}
    data, entries = bytearray(b"%PDF-1.7\n"), {0: (0, 0, 65535)}
    for number, item in streams.items():
        entries[number] = (1, len(data), 0)
        data += f"{number} 0 obj\n".encode() + _written(item) + b"\nendobj\n"
    holder, table = max(objects) + 1, max(objects) + 2
    bodies, numbers = b"", []
    for index, (number, item) in enumerate(plain.items()):
        numbers.append(f"{number} {len(bodies)}")
        entries[number] = (2, holder, index)
        bodies += _written(item) + b"\n"
    head = " ".join(numbers).encode() + b"\n"
    entries[holder] = (1, len(data), 0)
    data += _stream(holder, f"/Type/ObjStm/N {len(plain)}/First {len(head)}", head + bodies)
    entries[table] = (1, len(data), 0)
    rows = b"".join(struct.pack(">BIH", *entries.get(number, (0, 0, 0))) for number in range(table + 1))
    root = reader.trailer.raw_get("/Root").idnum
    start = len(data)
    data += _stream(table, f"/Type/XRef/W[1 4 2]/Size {table + 1}/Root {root} 0 R", rows)
    return bytes(data) + f"startxref\n{start}\n%%EOF\n".encode()


def _stream(number: int, entries: str, data: bytes) -> bytes:
    packed = zlib.compress(data)
    head = f"{number} 0 obj\n<<{entries}/Filter/FlateDecode/Length {len(packed)}>>stream\n"
    return head.encode() + packed + b"\nendstream\nendobj\n"


def _written(item: pypdf.generic.PdfObject) -> bytes:
    buffer = io.BytesIO()
    item.write_to_stream(buffer)
    return buffer.getvalue()


def _objects(content: str, resources: str, *objects: str, size: str = "200 100") -> Callable[[Path], object]:
    return lambda path: write_pdf_objects(path, content, resources, *objects, size=size)


def _replaced(old: bytes, new: bytes) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        data = write_pdf_objects(path, "0 0 50 50 re f", "").read_bytes()
        assert old in data
        path.write_bytes(data.replace(old, new))

    return write


def _picture(entries: str, data: str, colour: str = "/DeviceRGB") -> Callable[[Path], object]:
    head = (
        f"<</Type/XObject/Subtype/Image/ColorSpace{colour}/BitsPerComponent 8{entries}/Length {len(data)}>>"
    )
    content = "q 200 0 0 100 0 0 cm /I Do Q 0 0 9 9 re f"
    return _objects(content, "/XObject<</I 5 0 R>>", f"{head}stream\n{data}\nendstream")


def _bomb(path: Path) -> None:
    packed = zlib.compress(b"0 0 1 1 re f\n" * 20_000_000, 9).decode("latin-1")
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
    "endless pattern": write_endless,
    "form that draws itself": write_recursive,
    "page tree with a loop": _replaced(b"/Kids[3 0 R]/Count 1", b"/Kids[2 0 R]/Count 9"),
    "page tree of itself twice": _replaced(b"/Kids[3 0 R]/Count 1", b"/Kids[3 0 R 2 0 R]/Count 9"),
    "a million pages": _replaced(b"/Count 1>>", b"/Count 999999>>"),
    "minus one pages": _replaced(b"/Count 1>>", b"/Count -1>>"),
    "huge page": _objects("0 0 9 9 re f", "", size="999999999 999999999"),
    "endless page": _objects("0 0 9 9 re f", "", size="1e40 1e40"),
    "page without area": _objects("0 0 9 9 re f", "", size="0 0"),
    "narrow page": _objects("0 0 9 9 re f", "", size="1 14000"),
    "nested arrays": _replaced(b"/MediaBox[", b"/X" + b"[" * 100_000 + b"/MediaBox["),
    "nested dictionaries": _replaced(b"/MediaBox[", b"/X" + b"<</A" * 50_000 + b"/MediaBox["),
    "states saved without end": _objects("q " * 500_000 + "0 0 50 50 re f", ""),
    "a million shapes": _objects("0 0 m 9 99 l S\n" * 1_000_000, ""),
    "content of 260 MB": _bomb,
    "content whose length is itself": _replaced(b"<</Length 14>>", b"<</Length 4 0 R>>"),
    "content with a negative length": _replaced(b"<</Length 14>>", b"<</Length -5>>"),
    "letters that draw themselves": _objects("BT /F 9 Tf (A) Tj ET", "/Font<</F 5 0 R>>", _TYPE3, _GLYPH),
    "mask of itself": _objects("/M Do", "/XObject<</M 5 0 R>>", _MASKED, _MASK),
    "picture of 60000x60000": _picture("/Width 60000/Height 60000", "x"),
    "picture of JPEG 2000 noise": _picture("/Width 9/Height 9/Filter/JPXDecode", "\x00\x00\x00\x0cjP  " * 9),
    "picture of JBIG2 noise": _picture("/Width 9/Height 9/Filter/JBIG2Decode", "noise" * 20, "/DeviceGray"),
    "picture with thirty filters": _picture(
        "/Width 9/Height 9/Filter[" + "/ASCIIHexDecode" * 30 + "]", "00" * 99
    ),
    "encrypted for a certificate": _replaced(
        b"trailer\n<<",
        b"trailer\n<</Encrypt<</Filter/Adobe.PubSec/SubFilter/adbe.pkcs7.s5/V 4>>/ID[<00><00>]",
    ),
    "encrypted by an unknown scheme": _replaced(
        b"trailer\n<<", b"trailer\n<</Encrypt<</Filter/Own.Scheme/V 1>>/ID[<00><00>]"
    ),
    "encrypted by a version to come": _replaced(
        b"trailer\n<<",
        b"trailer\n<</Encrypt<</Filter/Standard/V 9/R 9/O<00>/U<00>/P -1/Length 512>>/ID[<00><00>]",
    ),
    "encrypted without a key": _replaced(
        b"trailer\n<<", b"trailer\n<</Encrypt<</Filter/Standard/V 2/R 3/P -1>>/ID[<00><00>]"
    ),
    "trailer before itself": _replaced(b"trailer\n<<", b"trailer\n<</Prev 9 "),
}
"""Files of one page by what is wrong with them."""
