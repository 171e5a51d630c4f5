"""rapidocr: PP-OCRv6 over onnxruntime, with the models that its package holds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.documents.manifest import Box
from docagent_rl.documents.ocr import OcrLine, fractions, lines_of, reduced, union
from docagent_rl.documents.settings import DocumentError

# Raised when the same version of rapidocr is asked for other words or other places of them.
_VERSION = 1
_DETECTION = "PP-OCRv6_det_small.onnx"
_RECOGNITION = "PP-OCRv6_rec_small.onnx"
_SIDE = 960
_FEWEST = 4
_PROSE = 20
_NARROWEST = 0.008
_DEEPEST = 40
# of onnxruntime, OpenCV, numpy and the loader of shared objects
_NO_MEMORY = ("allocate", "bad_alloc", "insufficient memory", "out of memory", "failed to map segment")

_Sides = tuple[list[OcrLine], list[OcrLine]]


def key() -> str:
    """Return the `OcrEngine.key`; a `UserError` says that rapidocr or a model of it is missing."""
    _models()
    return f"rapidocr/{_VERSION} {version('rapidocr')} PP-OCRv6 small det={_SIDE} max cls=off"


class Rapid:
    """rapidocr with the settings that were measured to be fastest and best (`benchmarks/ocr.py`).

    The classifier of upside-down lines is off, and text is looked for in the page scaled to 960 pixels; it is
    read in full resolution. Nothing is fetched: rapidocr loads models over the network only where it is not
    told their files.
    """

    most_side = 2000
    """rapidocr scales down to it by itself, but not to fewer than 16 pixels on the shorter side."""
    margin = 1.6
    """1.4 to 1.9 for letters of 10 to 24 points at 144 dpi."""

    def __init__(self) -> None:
        self.key = key()
        models = _models()
        try:
            import cv2
            from rapidocr import RapidOCR

            cv2.setNumThreads(1)
            params = {
                "Global.log_level": "error",
                "Global.use_cls": False,
                "Global.return_word_box": True,
                "EngineConfig.onnxruntime.intra_op_num_threads": 1,
                "EngineConfig.onnxruntime.inter_op_num_threads": 1,
                "Det.model_path": str(models / _DETECTION),
                "Det.limit_side_len": _SIDE,
                "Det.limit_type": "max",
                "Rec.model_path": str(models / _RECOGNITION),
            }
            self._engine: Any = RapidOCR(params=params)
        except (ImportError, MemoryError, RuntimeError) as error:
            raise _reason(error) from error

    def read(self, image: Image.Image) -> tuple[OcrLine, ...]:
        """Read as `OcrEngine.read`."""
        image = reduced(image, self.most_side)
        # it takes arrays as OpenCV has them, blue first
        pixels = np.ascontiguousarray(np.asarray(image)[..., ::-1])
        try:
            found = self._engine(pixels)
        except Exception as error:  # of three libraries, each with errors of its own
            raise _reason(error) from error
        if getattr(found, "boxes", None) is None or found.txts is None:
            return ()
        words = found.word_results if len(found.word_results) == len(found.txts) else [()] * len(found.txts)
        pieces = [
            list(_words(text, quad, parts, image.size))
            for text, quad, parts in zip(found.txts, found.boxes, words, strict=True)
        ]
        return reading_order(lines_of(pieces))


def _words(
    text: str, quad: np.ndarray, parts: Sequence[Any], size: tuple[int, int]
) -> Iterator[tuple[str, Box]]:
    """Yield the words of a line with their places; rapidocr splits them where letters stand apart, too."""
    tokens = text.split()
    letters = [
        (letter, part[2]) for part in parts if part[2] is not None for letter in "".join(part[0].split())
    ]
    # one more letter or one less, and no part is that of its word
    if not letters or "".join(letter for letter, _ in letters) != "".join(tokens):
        # all letters as wide
        box = fractions(_rectangle(quad), size)
        start, width = 0, (box[2] - box[0]) / max(sum(map(len, tokens)) + len(tokens) - 1, 1)
        for token in tokens:
            left = box[0] + start * width
            yield token, fractions((left, box[1], left + len(token) * width, box[3]), (1, 1))
            start += len(token) + 1
        return
    start = 0
    for token in tokens:
        quads = [place for _, place in letters[start : start + len(token)]]
        yield token, union(fractions(_rectangle(place), size) for place in quads)
        start += len(token)


def _rectangle(quad: Any) -> tuple[float, float, float, float]:
    points = np.asarray(quad, dtype=float).reshape(-1, 2)
    (left, top), (right, bottom) = points.min(0), points.max(0)
    return float(left), float(top), float(right), float(bottom)


def _models() -> Path:
    spec = find_spec("rapidocr")
    try:
        version("onnxruntime")
    except PackageNotFoundError:
        spec = None
    if spec is None or spec.origin is None:
        raise UserError(
            "OCR by rapidocr needs the packages rapidocr and onnxruntime: install them (pip install rapidocr "
            "onnxruntime), choose tesseract, or leave OCR out (--ocr never)"
        )
    folder = Path(spec.origin).parent / "models"
    for name in (_DETECTION, _RECOGNITION):
        if not (folder / name).is_file():
            raise UserError(
                f"rapidocr {version('rapidocr')} has no model {name} in its package: install the version "
                "that requirements/ pins, or choose tesseract"
            )
    return folder


def _reason(error: Exception) -> Exception:
    text = str(error).strip() or type(error).__name__
    if isinstance(error, MemoryError) or any(sign in text.casefold() for sign in _NO_MEMORY):
        return MemoryError(text)
    return DocumentError(f"rapidocr fails on it ({text.splitlines()[-1]})")


def reading_order(lines: Iterable[OcrLine]) -> tuple[OcrLine, ...]:
    """Return lines, given in any order, from top to bottom, column by column; pieces of one row become one.

    Recursive X-Y cut (Nagy and Seth 1984, "Hierarchical representation of optically scanned documents"): a
    white strip from top to bottom parts columns when on both sides of it stand at least four lines of prose,
    which keeps the rows of tables together; else the highest white strip from left to right parts what is
    above it from what is below, where that shows columns.
    """
    return tuple(row for block in _blocks(list(lines), 0) for row in _rows(block))


def _blocks(lines: list[OcrLine], depth: int) -> list[list[OcrLine]]:
    if len(lines) < 2 * _FEWEST or depth > _DEEPEST:
        return [lines]
    sides = _parted(lines, 0, _NARROWEST)
    if sides and all(
        len(side) >= _FEWEST and statistics.median(len(line.text) for line in side) >= _PROSE
        for side in sides
    ):
        return [block for side in sides for block in _blocks(side, depth + 1)]
    found = [_blocks(part, depth + 1) for part in _parted(lines, 1, 0.0) or ()]
    if any(len(blocks) > 1 for blocks in found):
        return [block for blocks in found for block in blocks]
    return [lines]


def _parted(lines: Sequence[OcrLine], axis: int, least: float) -> _Sides | None:
    """Return the lines before and behind the widest gap of more than `least` along an axis (0: x, 1: y)."""
    ordered = sorted(lines, key=lambda line: line.box[axis])
    widest, place = least, 0
    end = ordered[0].box[axis + 2]
    for index, line in enumerate(ordered[1:], start=1):
        start = line.box[axis]
        if start - end > widest:
            widest, place = start - end, index
        end = max(end, line.box[axis + 2])
    return (ordered[:place], ordered[place:]) if place else None


def _rows(lines: Sequence[OcrLine]) -> list[OcrLine]:
    rows: list[list[OcrLine]] = []
    for line in sorted(lines, key=lambda line: line.box[1] + line.box[3]):
        if rows and _beside(rows[-1][-1], line):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [
        OcrLine(tuple(word for piece in sorted(row, key=lambda line: line.box[0]) for word in piece.words))
        for row in rows
    ]


def _beside(one: OcrLine, other: OcrLine) -> bool:
    """Return whether two pieces share half of the lower one's height, and neither is over the other."""
    a, b = one.box, other.box
    shared = min(a[3], b[3]) - max(a[1], b[1])
    apart = a[2] <= b[0] + 0.01 or b[2] <= a[0] + 0.01
    return apart and shared > 0.5 * min(a[3] - a[1], b[3] - b[1])
