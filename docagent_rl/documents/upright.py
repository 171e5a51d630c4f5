"""Detection of scans that lie on a side or upside down, by the scores of OCR both ways.

The engine is sure of upright lines (a mean of 0.98 per letter on real pages) and of lines that it
turns upright itself, and unsure of lines that are upside down (0.50 to 0.67). It turns lines that
stand on end to the left: a page on its side is read well if its top is at the right, and badly if
its top is at the left.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from PIL import Image

from docagent_rl.documents.ocr import Piece, fit_to_engine, line_score, read_pieces, recognized_text
from docagent_rl.documents.references import Rotation

_SURE = 0.85
"""Minimum mean score of a page that is read the right way up."""
_GAIN = 0.15
"""Minimum gain in score for a page to be turned."""
_DOUBTFUL = 0.8
_FEWEST_LETTERS = 12
"""Minimum number of letters and digits for a page to be turned."""
_ON_END = 0.75
"""Minimum share of letters in lines that stand on end, for a page on its side."""
_FEWEST_LINES = 3
_WRITTEN_DOWN = 0.5
"""Minimum share of East Asian letters for a page that may be written from top to bottom."""
_LINES_TRIED = 3


_TRANSPOSED = {
    Rotation.RIGHT: Image.Transpose.ROTATE_270,  # Pillow turns counter-clockwise
    Rotation.OVER: Image.Transpose.ROTATE_180,
    Rotation.LEFT: Image.Transpose.ROTATE_90,
}


class Scan(NamedTuple):
    """The text that OCR read on the picture of a page."""

    text: str
    """The text in reading order; empty if there is none."""
    turn: Rotation = Rotation.NONE
    """The turn that makes the picture upright; the text is that of the turned picture."""
    is_doubtful: bool = False
    """The engine was unsure of much of what it read."""


def rotate(image: Image.Image, turn: Rotation) -> Image.Image:
    """Return a whole picture turned clockwise."""
    return image.transpose(_TRANSPOSED[turn]) if turn else image


def read_scan(image: Image.Image) -> Scan:
    """Read the picture of a page, whichever way up it is.

    If lines stand on end or the engine is unsure, the picture is turned and read again. The turned
    picture is used if its lines are then horizontal and the engine is sure of them, and surer than
    before. In doubt the picture stays as it is: with few letters, in a script that the engine does
    not know, or if Chinese is written from top to bottom.

    Raises:
        DocumentError: It cannot be read.
        UserError: rapidocr is not installed.
    """
    image = fit_to_engine(image)
    found = read_pieces(image)
    best = Rotation.NONE
    turn = _suspected(found, image)
    if turn:
        again = read_pieces(rotate(image, turn))
        if _is_upright(again) and (turn is Rotation.LEFT or score(again) >= score(found) + _GAIN):
            found = again
            best = turn
    return Scan(recognized_text(found), best, bool(found) and score(found) < _DOUBTFUL)


def score(pieces: Sequence[Piece]) -> float:
    """Return the mean of the pieces' scores, weighted by their lengths; 0 if there are none."""
    length = sum(len(piece.text) for piece in pieces)
    return sum(piece.score * len(piece.text) for piece in pieces) / length if length else 0.0


def _suspected(pieces: Sequence[Piece], image: Image.Image) -> Rotation:
    """Return the turn that would probably make a page upright, given the pieces that were read."""
    sure = score(pieces) >= _SURE
    if _stands_on_end(pieces):
        if not sure:
            return Rotation.RIGHT
        return Rotation.NONE if _is_written_down(pieces, image) else Rotation.LEFT
    return Rotation.NONE if sure or not pieces else Rotation.OVER


def _is_upright(pieces: Sequence[Piece]) -> bool:
    letters = _letters(piece for piece in pieces if piece.score >= _SURE)
    return letters >= _FEWEST_LETTERS and score(pieces) >= _SURE and not _stands_on_end(pieces)


def _stands_on_end(pieces: Sequence[Piece]) -> bool:
    tall = [piece for piece in pieces if piece.is_tall]
    return len(tall) >= _FEWEST_LINES and _letters(tall) >= max(
        _FEWEST_LETTERS, _ON_END * _letters(pieces)
    )


def _is_written_down(pieces: Sequence[Piece], image: Image.Image) -> bool:
    """Return whether lines that stand on end are columns of upright characters.

    The engine reads both such columns and lines that lie on a side. If they are cut into squares
    that are put side by side, only columns stay legible.
    """
    text = "".join(piece.text for piece in pieces)
    if sum(map(_is_square, text)) < _WRITTEN_DOWN * len(text):
        return False
    columns = sorted(
        (piece for piece in pieces if piece.is_tall), key=lambda piece: -len(piece.text)
    )
    scores = [line_score(_laid(image, piece)) for piece in columns[:_LINES_TRIED]]
    return max(scores) >= _SURE


def _is_square(letter: str) -> bool:
    """Return whether a letter is Chinese, Japanese or Korean."""
    return (
        "\u3040" <= letter <= "\u30ff"
        or "\u3400" <= letter <= "\u9fff"
        or "\uac00" <= letter <= "\ud7a3"
    )


def _laid(image: Image.Image, column: Piece) -> Image.Image:
    """Return a picture of the characters of a column side by side."""
    left, top, right, bottom = (
        round(edge * image.size[place % 2]) for place, edge in enumerate(column.box)
    )
    count = len(column.text)
    edges = [top + round((bottom - top) * place / count) for place in range(count + 1)]
    side = max(right - left, *(high - low for low, high in pairwise(edges)), 1)
    line = Image.new("RGB", (side * count, side), image.getpixel((left, top)))
    for place, (low, high) in enumerate(pairwise(edges)):
        line.paste(image.crop((left, low, right, high)), (place * side, 0))
    return line


def _letters(pieces: Iterable[Piece]) -> int:
    return sum(letter.isalnum() for piece in pieces for letter in piece.text)
