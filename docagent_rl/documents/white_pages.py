"""Detection of damage on pages that come out white, by reading their content without PDFium."""

import ctypes
import logging
import zlib
from contextlib import closing

import pypdf
import pypdfium2
import pypdfium2.raw as pdfium_c
from pypdf.generic import ArrayObject, ContentStream, PdfObject, StreamObject

from docagent_rl.documents.pdf import OpenPdf, utf16

_LIGHT = 250
# operators that paint (ISO 32000-1, annex A)
_PAINTING = frozenset(b"b B b* B* Do f F f* s S sh".split()) | {b"INLINE IMAGE"}
_WRITING = frozenset((b"Tj", b"TJ", b"'", b'"'))


def damage(pdf: OpenPdf, number: int) -> str | None:
    """Return the damage that makes page `number` (1-based) white, or None if it may be blank."""
    with pdf.page(number) as page:
        reason = _not_drawn(page)
        objects = pdfium_c.FPDFPage_CountObjects(page)
    return reason or (None if objects else _content_damage(pdf, number))


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


def _content_damage(pdf: OpenPdf, number: int) -> str | None:
    """Return what is wrong with the content of a page on which PDFium found nothing."""
    # PDFium silently skips a stream that it cannot decode, so read it with another library
    logging.getLogger("pypdf").setLevel(logging.CRITICAL)
    try:
        with pypdf.PdfReader(pdf.path) as reader:
            # PDFium opened the file without a password, so the password is empty
            if reader.is_encrypted and not reader.decrypt(""):
                return "it cannot be decrypted"
            page = reader.pages[number - 1]
            if page.get("/Type") != "/Page":
                return "its entry in the page tree is not a page"
            if "/Contents" not in page:
                return (
                    None
                    if pdf.is_sound
                    else "it has no content and the file's table of objects is damaged"
                )
            contents = page["/Contents"]
            for stream in contents if isinstance(contents, ArrayObject) else [contents]:
                _check_whole(stream.get_object())
            return _not_drawn_content(ContentStream(contents, reader))
    except MemoryError:
        raise
    except Exception as error:  # on a damaged file, the parser may raise anything
        return f"its content cannot be read ({type(error).__name__}: {error})"


def _check_whole(stream: PdfObject | None) -> None:
    """Decode a deflated stream strictly.

    Raises:
        TypeError: It is not a stream.
        ValueError: It is truncated.
        zlib.error: It is damaged.
    """
    if not isinstance(stream, StreamObject):
        raise TypeError("the content is not a stream")
    if stream.get("/Filter") in ("/FlateDecode", ["/FlateDecode"]):
        decoder = zlib.decompressobj()
        decoder.decompress(stream._data)
        if not decoder.eof:
            raise ValueError("a stream ends too early")


def _not_drawn_content(content: ContentStream) -> str | None:
    for operands, operator in content.operations:
        is_text = operator in _WRITING and str(operands).strip("[]'\" ,b()")
        if is_text or operator in _PAINTING:
            return "what its content paints cannot be drawn"
    return (
        None if content.operations or not content.get_data().strip() else "its content is garbled"
    )
