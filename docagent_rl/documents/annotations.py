"""Text that annotations draw on a page: values of form fields, typed notes, stamps."""

import ctypes
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium_c
from PIL import Image

from docagent_rl.documents.ink import has_ink
from docagent_rl.documents.pdf import OpenPdf, annotations, utf16
from docagent_rl.documents.projection import Box, Projection, TextBoxes, enclosing

_WITHOUT_TEXT = frozenset(
    {
        pdfium_c.FPDF_ANNOT_LINK,
        pdfium_c.FPDF_ANNOT_POPUP,
        pdfium_c.FPDF_ANNOT_HIGHLIGHT,
        pdfium_c.FPDF_ANNOT_UNDERLINE,
        pdfium_c.FPDF_ANNOT_SQUIGGLY,
        pdfium_c.FPDF_ANNOT_STRIKEOUT,
        pdfium_c.FPDF_ANNOT_INK,
    }
)
_READ = frozenset(
    {pdfium_c.FPDF_ANNOT_FREETEXT, pdfium_c.FPDF_ANNOT_STAMP, pdfium_c.FPDF_ANNOT_WATERMARK}
)
"""Annotations that may show letters as curves or in a picture, to be read by OCR."""
_BUTTONS = frozenset({pdfium_c.FPDF_FORMFIELD_CHECKBOX, pdfium_c.FPDF_FORMFIELD_RADIOBUTTON})
_TYPED = frozenset(
    {
        pdfium_c.FPDF_FORMFIELD_TEXTFIELD,
        pdfium_c.FPDF_FORMFIELD_COMBOBOX,
        pdfium_c.FPDF_FORMFIELD_LISTBOX,
    }
)
_CHECKED = "\u2612"
"""Text of a button that is on and whose mark is drawn without a character."""
_DEEPEST = 8


@dataclass(slots=True)
class DrawnText:
    """Text that one annotation draws."""

    box: Box
    """Box of its first line."""
    lines: list[str] = field(default_factory=list)
    extent: Box | None = None


@dataclass(slots=True)
class _Written:
    """The characters of one annotation, in the order of the text page."""

    lines: list[str] = field(default_factory=list)
    boxes: list[Box] = field(default_factory=list)
    in_first_line: int = 0
    """Number of boxes in the first line, which are the first ones."""


@dataclass(frozen=True, slots=True)
class _Annotation:
    kind: int
    box: Box
    value: str
    """Value of a field or text of a note; empty for annotations that do not draw it."""
    checked: bool


def drawn_texts(
    pdf: OpenPdf, number: int, picture: Image.Image, read: Callable[[Image.Image], str] | None
) -> list[DrawnText]:
    """Return the texts that the annotations of page `number` draw, from top to bottom.

    Hidden annotations have no ink in the picture and are left out. If letters are spread over
    cells, the field's value is returned instead of them.

    Args:
        pdf: the file.
        number: the page, 1-based.
        picture: the page as it was drawn, annotations included.
        read: OCR for stamps and notes that have no characters; None: they are left out.
    """
    with pdf.page(number) as page:
        projection = Projection(page, picture.size)
        sources = list(_annotations(pdf, page, projection))
    if not sources:
        return []
    texts = [text for text in _flat_texts(pdf, number, picture.size) if _is_drawn(text, picture)]
    for annotation in sources:
        own = [
            text for text in texts if text.extent and annotation.box.contains(text.extent.middle)
        ]
        if own:
            _take_value(own, annotation.value)
        elif line := _without_characters(annotation, picture, read):
            texts.append(DrawnText(annotation.box, line.splitlines(), annotation.box))
    return _in_rows([text for text in texts if text.lines])


def _in_rows(texts: Sequence[DrawnText]) -> list[DrawnText]:
    """Return texts from top to bottom, and those in one row from left to right."""
    rows: list[list[DrawnText]] = []
    for text in sorted(texts, key=lambda text: text.box.middle[1]):
        if rows and text.box.middle[1] < rows[-1][0].box.bottom:
            rows[-1].append(text)
        else:
            rows.append([text])
    return [text for row in rows for text in sorted(row, key=lambda text: text.box.left)]


def _annotations(
    pdf: OpenPdf, page: pypdfium2.PdfPage, projection: Projection
) -> Iterator[_Annotation]:
    for annotation in annotations(page):
        kind = pdfium_c.FPDFAnnot_GetSubtype(annotation)
        if kind not in _WITHOUT_TEXT:
            yield _annotation(pdf, kind, annotation, projection)


def _annotation(pdf: OpenPdf, kind: int, annotation: Any, projection: Projection) -> _Annotation:
    sides = pdfium_c.FS_RECTF()
    pdfium_c.FPDFAnnot_GetRect(annotation, sides)
    box = projection.box(sides.left, sides.bottom, sides.right, sides.top)
    value = ""
    checked = False
    if kind == pdfium_c.FPDF_ANNOT_FREETEXT:
        value = _string(
            lambda *buffer: pdfium_c.FPDFAnnot_GetStringValue(annotation, b"Contents", *buffer)
        )
    elif kind == pdfium_c.FPDF_ANNOT_WIDGET and (form := pdf.form):
        field_kind = pdfium_c.FPDFAnnot_GetFormFieldType(form, annotation)
        if field_kind in _TYPED:
            value = _string(
                lambda *buffer: pdfium_c.FPDFAnnot_GetFormFieldValue(form, annotation, *buffer)
            )
        checked = field_kind in _BUTTONS and bool(pdfium_c.FPDFAnnot_IsChecked(form, annotation))
    return _Annotation(kind, box, value, checked)


def _string(fill: Callable[..., int]) -> str:
    def cast(buffer: ctypes.Array | None, size: int) -> int:
        units = ctypes.cast(buffer, ctypes.POINTER(ctypes.c_ushort)) if buffer else None
        return fill(units, size)

    return utf16(cast).replace("\r\n", "\n").replace("\r", "\n").strip()


def _flat_texts(pdf: OpenPdf, number: int, size: tuple[int, int]) -> Iterator[DrawnText]:
    """Yield the texts that annotations draw with characters.

    They are read from a copy of the page whose annotations were made part of its content.
    """
    with pdf.flattened(number) as page:
        count = pdfium_c.FPDFPage_CountObjects(page)
        owners = _owners(pdfium_c.FPDFPage_GetObject(page, count - 1)) if count else {}
        if not owners:
            return
        textpage = page.get_textpage()
        try:
            boxes = TextBoxes(textpage, Projection(page, size))
            yield from _collected(textpage, owners, boxes)
        finally:
            textpage.close()


def _owners(flat: Any) -> dict[int, int]:
    """Return the number of the annotation that each text object belongs to, by address.

    Flattening leaves one form object at the end of the page, which contains one form object for
    each annotation.
    """
    owners: dict[int, int] = {}
    if pdfium_c.FPDFPageObj_GetType(flat) != pdfium_c.FPDF_PAGEOBJ_FORM:
        return owners
    for number in range(pdfium_c.FPDFFormObj_CountObjects(flat)):
        for item in _texts_within(pdfium_c.FPDFFormObj_GetObject(flat, number)):
            owners[_address(item)] = number
    return owners


def _texts_within(item: Any, depth: int = 0) -> Iterator[Any]:
    kind = pdfium_c.FPDFPageObj_GetType(item)
    if kind == pdfium_c.FPDF_PAGEOBJ_TEXT:
        yield item
    elif kind == pdfium_c.FPDF_PAGEOBJ_FORM and depth < _DEEPEST:
        for index in range(pdfium_c.FPDFFormObj_CountObjects(item)):
            yield from _texts_within(pdfium_c.FPDFFormObj_GetObject(item, index), depth + 1)


def _address(handle: Any) -> int:
    return ctypes.addressof(handle.contents) if handle else 0


def _collected(
    textpage: pypdfium2.PdfTextPage, owners: dict[int, int], boxes: TextBoxes
) -> Iterator[DrawnText]:
    found: dict[int, _Written] = defaultdict(_Written)
    page = textpage.raw
    before = -1
    gap = ""
    for index in range(textpage.count_chars()):
        character = chr(pdfium_c.FPDFText_GetUnicode(page, index))
        owner = owners.get(_address(pdfium_c.FPDFText_GetTextObject(page, index)))
        if owner is None:
            gap += character
            continue
        text = found[owner]
        if not text.lines or owner != before or "\n" in gap:
            text.lines.append(character)
        else:
            text.lines[-1] += (" " if gap else "") + character
        text.boxes.append(boxes.loose(index))
        if len(text.lines) == 1:
            text.in_first_line += 1
        before = owner
        gap = ""
    for text in found.values():
        lines = [line for each in text.lines if (line := each.strip())]
        yield DrawnText(enclosing(text.boxes[: text.in_first_line]), lines, enclosing(text.boxes))


def _is_drawn(text: DrawnText, picture: Image.Image) -> bool:
    return bool(text.lines) and text.extent is not None and has_ink(picture, text.extent)


def _take_value(texts: Sequence[DrawnText], value: str) -> None:
    """Replace letters in cells, which are too far apart to be read as words, by the value."""
    drawn = "".join(line for text in texts for line in text.lines)
    if (
        len(texts) == 1
        and len(texts[0].lines) == 1
        and "\n" not in value
        and _dense(value) == _dense(drawn)
    ):
        texts[0].lines = [value]


def _dense(text: str) -> str:
    return "".join(text.split())


def _without_characters(
    annotation: _Annotation, picture: Image.Image, read: Callable[[Image.Image], str] | None
) -> str:
    """Return the text of an annotation that draws no characters; empty if there is none."""
    if not has_ink(picture, annotation.box):
        return ""
    if annotation.checked:
        return _CHECKED
    if read is None or annotation.kind not in _READ:
        return ""
    left, top, right, bottom = annotation.box
    part = (
        max(int(left), 0),
        max(int(top), 0),
        min(int(right) + 1, picture.width),
        min(int(bottom) + 1, picture.height),
    )
    return read(picture.crop(part).convert("RGB"))
