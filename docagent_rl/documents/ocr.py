"""OCR with rapidocr (PP-OCRv6 over onnxruntime) and the models in its package."""

import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.pdf import clean_text
from docagent_rl.documents.settings import DocumentError

_DETECTION = "PP-OCRv6_det_small.onnx"
_RECOGNITION = "PP-OCRv6_rec_small.onnx"
_DETECTION_SIDE = 960
_MOST_SIDE = 2000
"""rapidocr itself scales down to this, but keeps at least 16 pixels on the shorter side."""
_LEAST_SCORE = 0.5
"""Pieces with lower scores are left out, as rapidocr does by default."""
_TALL = 1.5
_FEWEST = 4
_PROSE = 20
_NARROWEST = 0.008
_DEEPEST = 40
_SPLIT = re.compile(r"(?<=\w)-\n(?=[a-zà-ÿ])")


class Piece(NamedTuple):
    """A piece of text on a page: a line, or a part of one."""

    text: str
    box: tuple[float, float, float, float]
    """Left, top, right and bottom as fractions of the page's sides."""
    score: float = 1.0
    """The engine's confidence in the text, in [0, 1]."""
    is_tall: bool = False
    """True if it stands on end: its height is at least one and a half times its width."""


def engine_name() -> str:
    """Return the name and version of the engine.

    Raises:
        UserError: The engine or one of its models is not installed.
    """
    from importlib.metadata import version  # workers that read text layers do not need it

    _models()
    return f"rapidocr {version('rapidocr')}"


def recognize(image: Image.Image) -> str:
    """Return the text of a picture in reading order; empty if it shows none.

    Raises:
        DocumentError: It cannot be read.
        UserError: rapidocr is not installed.
    """
    return recognized_text(read_pieces(fit_to_engine(image)))


def fit_to_engine(image: Image.Image) -> Image.Image:
    """Return a picture in mode RGB, scaled down to the largest size that the engine reads."""
    image = image.convert("RGB")
    image.thumbnail((_MOST_SIDE, _MOST_SIDE), Image.Resampling.LANCZOS)
    return image


def read_pieces(image: Image.Image) -> list[Piece]:
    """Return the pieces of text in a picture from `fit_to_engine`, also those with low scores.

    Raises:
        DocumentError: It cannot be read.
        UserError: rapidocr is not installed.
    """
    found = _asked(lambda engine: engine(_pixels(image)))
    if getattr(found, "boxes", None) is None or found.txts is None:
        return []
    return [
        Piece(text, _box(quad, image.size), float(score), _is_tall(quad))
        for line, quad, score in zip(found.txts, found.boxes, found.scores, strict=True)
        if (text := " ".join(clean_text(line).split()))
    ]


def line_score(image: Image.Image) -> float:
    """Return how sure the engine is of a picture that is one line of text, in [0, 1].

    Raises:
        DocumentError: It cannot be read.
        UserError: rapidocr is not installed.
    """
    found = _asked(lambda engine: engine.recognize_txt([_pixels(image)]))
    return float(found.scores[0])


def recognized_text(pieces: Iterable[Piece]) -> str:
    """Return the text of pieces in reading order, without pieces of low scores."""
    return plain_text(reading_order([piece for piece in pieces if piece.score >= _LEAST_SCORE]))


def _asked(ask: Callable[[Any], Any]) -> Any:
    engine = _engine()
    try:
        return ask(engine)
    except MemoryError:
        raise
    except Exception as error:  # three libraries raise their own kinds of errors here
        raise DocumentError(f"rapidocr fails on it ({error})") from error


def _pixels(image: Image.Image) -> Any:
    import numpy as np

    # rapidocr takes arrays in OpenCV's order, blue first
    return np.ascontiguousarray(np.asarray(image)[..., ::-1])


def plain_text(lines: Iterable[str]) -> str:
    """Return lines as text, with words joined that a hyphen splits at the end of a line."""
    return _SPLIT.sub("", "\n".join(lines)).strip()


@cache
def _engine() -> Any:
    """Return rapidocr with the settings that were fastest and best in `benchmarks/ocr.py`.

    - The classifier of upside-down lines is off, since `upright` turns pages.
    - Text is detected on the page scaled to 960 pixels, and read in full resolution.
    - Lines are read one by one: batches of six, padded to the longest line, take half again as much
      memory. Memory is reused from line to line.
    - Nothing is downloaded: rapidocr only does so if it is not given the files of its models.
    """
    models = _models()
    try:
        import cv2
        from rapidocr import RapidOCR
    except ImportError as error:  # a shared library that it needs is missing
        remedy = "fix that, or leave OCR out (--ocr never)"
        raise UserError(f"rapidocr cannot be loaded ({error}): {remedy}") from error
    cv2.setNumThreads(1)
    return RapidOCR(
        params={
            "Global.log_level": "error",
            "Global.use_cls": False,
            "Global.text_score": 0.0,
            "EngineConfig.onnxruntime.intra_op_num_threads": 1,
            "EngineConfig.onnxruntime.inter_op_num_threads": 1,
            "EngineConfig.onnxruntime.enable_cpu_mem_arena": True,
            "Det.model_path": str(models / _DETECTION),
            "Det.limit_side_len": _DETECTION_SIDE,
            "Det.limit_type": "max",
            "Rec.model_path": str(models / _RECOGNITION),
            "Rec.rec_batch_num": 1,
        }
    )


def _models() -> Path:
    spec = find_spec("rapidocr")
    folder = Path(spec.origin).parent / "models" if spec and spec.origin else None
    names = (_DETECTION, _RECOGNITION)
    if not (
        folder and find_spec("onnxruntime") and all((folder / name).is_file() for name in names)
    ):
        raise UserError(
            f"OCR needs onnxruntime and rapidocr with the models {' and '.join(names)} in its "
            "package: install the versions that requirements/ pins, or leave OCR out (--ocr never)"
        )
    return folder


def _box(quad: Any, size: tuple[int, int]) -> tuple[float, float, float, float]:
    xs, ys = ([float(point[axis]) / size[axis] for point in quad] for axis in (0, 1))
    return min(xs), min(ys), max(xs), max(ys)


def _is_tall(quad: Any) -> bool:
    """Return whether a piece stands on end; the engine turns such pieces left before it reads."""
    width, height = (math.dist(quad[0], quad[corner]) for corner in (1, 3))
    return height >= _TALL * width


def reading_order(pieces: Iterable[Piece]) -> list[str]:
    """Return the lines of pieces, given in any order, from top to bottom, column by column.

    Recursive X-Y cut (Nagy and Seth 1984, "Hierarchical representation of optically scanned
    documents"): a white strip from top to bottom separates columns if there are at least four lines
    of prose on both sides, which keeps the rows of tables together. Otherwise the highest white
    strip from left to right separates what is above from what is below, if that reveals columns.
    """
    return [row for block in _blocks(list(pieces), 0) for row in _rows(block)]


def _blocks(pieces: list[Piece], depth: int) -> list[list[Piece]]:
    if len(pieces) < 2 * _FEWEST or depth > _DEEPEST:
        return [pieces]
    sides = _parted(pieces, 0, _NARROWEST)
    if sides and all(map(_is_prose, sides)):
        return list(chain.from_iterable(_blocks(side, depth + 1) for side in sides))
    found = [_blocks(part, depth + 1) for part in _parted(pieces, 1, 0.0)]
    if any(len(blocks) > 1 for blocks in found):
        return list(chain.from_iterable(found))
    return [pieces]


def _is_prose(pieces: Sequence[Piece]) -> bool:
    """Return whether pieces may be a column of text: enough of them, and mostly long ones."""
    return (
        len(pieces) >= _FEWEST and statistics.median(len(piece.text) for piece in pieces) >= _PROSE
    )


def _parted(pieces: Sequence[Piece], axis: int, least: float) -> list[list[Piece]]:
    """Split pieces at the widest gap of more than `least` along an axis (0: x, 1: y), if any."""
    ordered = sorted(pieces, key=lambda piece: piece.box[axis])
    widest = least
    place = 0
    end = ordered[0].box[axis + 2]
    for index, piece in enumerate(ordered[1:], start=1):
        start = piece.box[axis]
        if start - end > widest:
            widest = start - end
            place = index
        end = max(end, piece.box[axis + 2])
    return [ordered[:place], ordered[place:]] if place else []


def _rows(pieces: Sequence[Piece]) -> list[str]:
    """Return lines from top to bottom; pieces in the same row become one line."""
    rows: list[list[Piece]] = []
    for piece in sorted(pieces, key=lambda piece: piece.box[1] + piece.box[3]):
        if rows and _beside(rows[-1][-1], piece):
            rows[-1].append(piece)
        else:
            rows.append([piece])
    return [
        " ".join(piece.text for piece in sorted(row, key=lambda piece: piece.box[0]))
        for row in rows
    ]


def _beside(one: Piece, other: Piece) -> bool:
    """Return whether two pieces are side by side and share more than half of the lesser height."""
    a = one.box
    b = other.box
    shared = min(a[3], b[3]) - max(a[1], b[1])
    apart = a[2] <= b[0] + 0.01 or b[2] <= a[0] + 0.01
    return apart and shared > 0.5 * min(a[3] - a[1], b[3] - b[1])
