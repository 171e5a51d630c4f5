"""The text of a page: from its text layer, or by OCR if the layer is empty or broken."""

import io
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import cast

import pypdfium2
import pypdfium2.raw as pdfium_c
from PIL import Image

from docagent_rl.documents.manifest import Finding, TextReading, TextReason, TextSource
from docagent_rl.documents.ocr import engine_name, recognize
from docagent_rl.documents.pdf import clean_text
from docagent_rl.documents.references import Rotation
from docagent_rl.documents.settings import DocumentError, OcrMode
from docagent_rl.documents.upright import Scan, read_scan
from docagent_rl.documents.workers import begin_part

_GARBLED_SHARE = 0.2
_PROBES = 64
_CID = re.compile(r"\(cid:\d+\)")
_FOREIGN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
_FULL_PAGE = 300
"""Number of characters from which a text layer is taken to be complete."""
_PICTURE_SHARE = 0.4
_MANY_PATHS = 500
"""Number of drawn paths that may be letters; charts have fewer."""
_MOST_OBJECTS = 3000
_BLANK_CONTRAST = 24
_SMALLEST_SIDE = 8
"""Shorter side in pixels below which a picture cannot show letters."""
_MORE_TIMES = 1.25


@dataclass(frozen=True, slots=True)
class TextLayer:
    """The text layer of a page."""

    text: str = ""
    unmapped: float = 0.0
    """Share of its glyphs without a character."""
    hidden: Callable[[], bool] = lambda: False
    """Returns whether pictures or drawings on the page may show text that is not in the layer."""
    findings: tuple[Finding, ...] = ()
    """Defects of the layer or of the picture."""


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page."""

    text: str
    reading: TextReading
    turn: Rotation = Rotation.NONE
    """The turn that makes the picture upright; only pages with text by OCR are turned."""
    findings: tuple[Finding, ...] = ()
    """Defects of the picture or of the text that OCR read."""


def read_page(name: str, jpeg: bytes, layer: TextLayer, mode: OcrMode) -> PageText:
    """Read the text of a page; `name`, such as `page 12`, is for messages.

    The OCR engine is started only when a page needs it.

    Raises:
        DocumentError: OCR fails on the page.
        UserError: The engine is not installed.
    """
    if mode is OcrMode.NEVER:
        return _of_layer(layer, TextReason.OFF)
    state = assess(layer.text, layer.unmapped, layer.hidden)
    if state is TextReason.SOUND and Finding.WRONG_MAP in layer.findings:
        state = TextReason.GARBLED
    if state is TextReason.SOUND:
        if mode is not OcrMode.ALWAYS:
            return _of_layer(layer, state)
        state = TextReason.ASKED
    with Image.open(io.BytesIO(jpeg), formats=("JPEG",)) as picture:
        if is_blank(picture.convert("L")) or min(picture.size) < _SMALLEST_SIDE:
            return _of_layer(layer, TextReason.BLANK)
        begin_part(f"{name} (OCR)")
        try:
            scan = read_scan(picture)
        except DocumentError as error:
            raise DocumentError(f"{name}: {error}; --ocr never leaves its text out") from error
    if not any(map(str.isalnum, scan.text)):  # OCR reads specks and strokes as dots and dashes
        return _of_layer(layer, TextReason.NOTHING_READ, engine_name())
    if is_better(scan.text, layer.text, state):
        return _of_scan(scan, TextReading(TextSource.OCR, state, engine_name()))
    return _of_layer(layer, TextReason.NO_BETTER, engine_name())


def read_part(picture: Image.Image) -> str:
    """Return the text of a part of a page's picture; empty if there is nothing that OCR can read.

    Raises:
        DocumentError: OCR fails on it.
        UserError: The engine is not installed.
    """
    if is_blank(picture.convert("L")) or min(picture.size) < _SMALLEST_SIDE:
        return ""
    return recognize(picture)


def _of_scan(scan: Scan, reading: TextReading) -> PageText:
    findings = []
    if scan.turn is not Rotation.NONE:
        findings.append(Finding.TURNED)
    if scan.is_doubtful:
        findings.append(Finding.DOUBTFUL_OCR)
    return PageText(scan.text, reading, scan.turn, tuple(findings))


def is_better(text: str, layer: str, state: TextReason) -> bool:
    """Return whether a text read by OCR should replace a text layer.

    For a sparse layer, OCR must read at least 1.25 times as many letters and digits as the layer
    has; for other states of the layer, any letter or digit is enough.
    """
    by_ocr, in_layer = (sum(map(str.isalnum, each)) for each in (text, layer))
    return by_ocr >= _MORE_TIMES * in_layer if state is TextReason.SPARSE else by_ocr > 0


def _of_layer(layer: TextLayer, reason: TextReason, engine: str | None = None) -> PageText:
    source = TextSource.LAYER if layer.text else TextSource.NONE
    return PageText(layer.text, TextReading(source, reason, engine))


def layer_text(textpage: pypdfium2.PdfTextPage) -> str:
    """Return the text layer inside the page box, with words joined that a hyphen splits."""
    return clean_text(textpage.get_text_bounded()).strip()


def assess(text: str, unmapped: float, hidden: Callable[[], bool]) -> TextReason:
    """Return what is wrong with a text layer; `SOUND` if nothing is.

    - `EMPTY`: it has no characters.
    - `GARBLED`: at least a fifth of its characters are replacement, private, control or unassigned
      characters, `(cid:12)`, or glyphs that the font maps to no character.
    - `SPARSE`: it has fewer than 300 characters, and pictures or drawings on the page may show
      more text, as on a scan with a stamp. OCR then decides.

    Args:
        text: the text layer as it is stored.
        unmapped: share of its glyphs that have no character (`unmapped_share`).
        hidden: returns whether pictures or drawings may show text that is not in the layer
            (`may_hide_text`); only called for short layers.
    """
    letters = "".join(text.split())
    if not letters:
        return TextReason.GARBLED if unmapped >= _GARBLED_SHARE else TextReason.EMPTY
    foreign = sum(each == "\ufffd" or unicodedata.category(each) in _FOREIGN for each in letters)
    foreign += sum(map(len, _CID.findall(text)))
    if max(foreign / len(letters), unmapped) >= _GARBLED_SHARE:
        return TextReason.GARBLED
    return TextReason.SPARSE if len(letters) < _FULL_PAGE and hidden() else TextReason.SOUND


def is_blank(picture: Image.Image) -> bool:
    """Return whether a picture in mode L has only one colour, or nearly so."""
    low, high = cast("tuple[int, int]", picture.getextrema())
    return high - low < _BLANK_CONTRAST


def unmapped_share(textpage: pypdfium2.PdfTextPage) -> float:
    """Return the share of a page's glyphs without a character, estimated from about 64 of them."""
    count = textpage.count_chars()
    if not count:
        return 0.0
    probes = range(0, count, max(1, count // _PROBES))
    return sum(
        pdfium_c.FPDFText_HasUnicodeMapError(textpage, index) == 1 for index in probes
    ) / len(probes)


def may_hide_text(page: pypdfium2.PdfPage) -> bool:
    """Return whether pictures cover two fifths of a page, or 500 paths on it may be letters."""
    width, height = page.get_size()
    covered = 0.0
    paths = 0
    for item in islice(page.get_objects(max_depth=4), _MOST_OBJECTS):
        if item.type == pdfium_c.FPDF_PAGEOBJ_IMAGE:
            left, bottom, right, top = item.get_bounds()
            covered += max(right - left, 0) * max(top - bottom, 0)
        else:
            paths += item.type == pdfium_c.FPDF_PAGEOBJ_PATH
        if covered >= _PICTURE_SHARE * width * height or paths >= _MANY_PATHS:
            return True
    return False
