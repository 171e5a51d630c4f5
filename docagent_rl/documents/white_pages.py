"""White pages: blank by right, or what is left of a damaged page, whose content is read apart from PDFium."""

from __future__ import annotations

import base64
import ctypes
import logging
import zlib
from collections.abc import Iterable, Iterator
from contextlib import closing

import pypdf
import pypdfium2
import pypdfium2.raw as pdfium_c
from pypdf.generic import (
    ArrayObject,
    ContentStream,
    DictionaryObject,
    NullObject,
    PdfObject,
    StreamObject,
)

from docagent_rl.documents.pdf import OpenPdf, utf16

_LIGHT = 250
# operators of a content stream (ISO 32000-1, annex A); a garbled stream has others
_OPERATORS = frozenset(
    b"b B b* B* BDC BI BMC BT BX c cm CS cs d d0 d1 Do DP EI EMC ET EX f F f* G g gs h i ID j J K k l m M MP "
    b"n q Q re RG rg ri s S SC sc SCN scn sh T* Tc Td TD Tf Tj TJ TL Tm Tr Ts Tw Tz v w W W* y ' \"".split()
) | {b"INLINE IMAGE"}
_SHOWING = frozenset((b"Tj", b"TJ", b"'", b'"'))


def damage(pdf: OpenPdf, number: int) -> str | None:
    """Return why page `number` (1-based), which came out white, is no blank page; None when it may be one."""
    with pdf.page(number) as page:
        reason = _not_drawn(page)
        objects = pdfium_c.FPDFPage_CountObjects(page)
    return reason or _content_damage(pdf, number, drawn=objects > 0)


def _not_drawn(page: pypdfium2.PdfPage) -> str | None:
    for item in page.get_objects(max_depth=4):
        if item.type == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            bitmap = pdfium_c.FPDFImageObj_GetBitmap(item)
            if not bitmap:
                return "an image on it cannot be decoded"
            pdfium_c.FPDFBitmap_Destroy(bitmap)
        elif item.type == pdfium_c.FPDF_PAGEOBJ_TEXT and _is_visible_text(item, page):
            return "text on it cannot be drawn"
    return None


def _is_visible_text(item: pypdfium2.PdfObject, page: pypdfium2.PdfPage) -> bool:
    if pdfium_c.FPDFTextObj_GetTextRenderMode(item) == pdfium_c.FPDF_TEXTRENDERMODE_INVISIBLE:
        return False
    channels = [ctypes.c_uint() for _ in range(4)]
    pdfium_c.FPDFPageObj_GetFillColor(item, *channels)
    red, green, blue, alpha = (channel.value for channel in channels)
    left, bottom, right, top = item.get_bounds()
    width, height = page.get_size()
    inside = 0 <= left < right <= width and 0 <= bottom < top <= height
    if not inside or alpha == 0 or min(red, green, blue) >= _LIGHT:
        return False

    def fill(buffer: ctypes.Array | None, size: int) -> int:
        units = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)) if buffer else None
        return pdfium_c.FPDFTextObj_GetText(item, textpage, units, size)

    with closing(page.get_textpage()) as textpage:
        return bool(utf16(fill).strip())


def _content_damage(pdf: OpenPdf, number: int, *, drawn: bool) -> str | None:
    """Return the fault of the content of a white page on which PDFium found objects (`drawn`) or none."""
    # PDFium passes over a stream that it cannot decode without a word: read it with another program
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        with pypdf.PdfReader(pdf.path) as reader:
            # PDFium opened it without a password, so that there is none to ask for
            if reader.is_encrypted and not reader.decrypt(""):
                return "it cannot be decrypted"
            page = reader.pages[number - 1]
            if page.get("/Type") != "/Page":
                return "what stands in its place among the pages is no page"
            if "/Contents" not in page:
                return (
                    None if pdf.is_sound else "it has no content and the file's table of objects is damaged"
                )
            for stream in tuple(_streams(page["/Contents"])):
                _decode(stream)
            content = ContentStream(page["/Contents"], reader)
            return _garbled(content.operations, page, drawn=drawn)
    except MemoryError:
        raise
    except Exception as error:  # of a parser on a damaged file
        return f"its content cannot be read ({type(error).__name__}: {error})"


def _streams(contents: PdfObject) -> Iterator[StreamObject]:
    for entry in contents if isinstance(contents, ArrayObject) else (contents,):
        stream = entry.get_object()
        if stream is None or isinstance(stream, NullObject):
            raise ValueError("a content stream is missing")
        if not isinstance(stream, StreamObject):
            raise TypeError("the content is not a stream")
        yield stream


def _decode(stream: StreamObject) -> None:
    """Decode a stream strictly: a `ValueError` or `zlib.error` says that it is damaged."""
    filters = stream.get("/Filter", ())
    data = stream._data
    for name in (filters,) if isinstance(filters, str) else filters:
        if name == "/ASCII85Decode":
            data = base64.a85decode(data.strip().removeprefix(b"<~").removesuffix(b"~>"))
        elif name == "/FlateDecode":
            decoder = zlib.decompressobj()
            data = decoder.decompress(data)
            if not decoder.eof:
                raise ValueError("a stream ends too early")
        else:
            stream.get_data()
            return


def _garbled(operations: Iterable[tuple], page: pypdf.PageObject, *, drawn: bool) -> str | None:
    none = DictionaryObject()
    known = page.get("/Resources", none).get_object().get("/XObject", none).get_object()
    for operands, operator in operations:
        if operator not in _OPERATORS:
            return f"its content is garbled (no operator {operator[:20]!r})"
        if operator == b"Do":
            item = known[operands[0]].get_object() if operands and operands[0] in known else None
            if not isinstance(item, StreamObject):
                return "what it shows is not in the file"
            if item["/Subtype"] == "/Form":  # PDFium has looked at images
                _decode(item)
        if not drawn and operator in _SHOWING and str(operands).strip("[]'\" ,b()"):
            return "text on it cannot be drawn"
    return None
