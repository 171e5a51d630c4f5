"""White pages: blank by right, or what is left of a damaged page."""

from __future__ import annotations

import ctypes

import pypdfium2
import pypdfium2.raw as pdfium_c

from docagent_rl.documents.pdf import OpenPdf

_LIGHT = 250


def damage(pdf: OpenPdf, number: int) -> str | None:
    """Why page `number` (1-based), which came out white, is no blank page; None when it may be one."""
    with pdf.page(number) as page:
        reason = _not_drawn(page)
        objects = pdfium_c.FPDFPage_CountObjects(page)
    if reason:
        return reason
    from docagent_rl.documents.content_streams import content_damage  # white pages are few: when one is met

    return content_damage(pdf, number, drawn=objects > 0)


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
    return inside and alpha > 0 and min(red, green, blue) < _LIGHT and bool(_text(item, page).strip())


def _text(item: pypdfium2.PdfObject, page: pypdfium2.PdfPage) -> str:
    textpage = page.get_textpage()
    try:
        size = pdfium_c.FPDFTextObj_GetText(item, textpage, None, 0)
        buffer = ctypes.create_string_buffer(max(size, 2))
        array = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort))
        pdfium_c.FPDFTextObj_GetText(item, textpage, array, size)
    finally:
        textpage.close()
    return buffer.raw[: max(size - 2, 0)].decode("utf-16-le", errors="replace")
