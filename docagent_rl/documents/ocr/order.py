"""The order in which lines of a picture are read."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from docagent_rl.documents.ocr.words import OcrLine

_FEWEST = 4
_PROSE = 20
_NARROWEST = 0.008
_DEEPEST = 40

_Sides = tuple[list[OcrLine], list[OcrLine]]


def reading_order(lines: Iterable[OcrLine]) -> tuple[OcrLine, ...]:
    """Return lines from top to bottom, column by column; pieces of one row become one line.

    Recursive X-Y cut (Nagy and Seth 1984, "Hierarchical representation of optically scanned documents"): a
    white strip from top to bottom parts columns when on both sides of it stand at least four lines of prose,
    which keeps the rows of tables together; else the highest white strip from left to right parts what is
    above it from what is below, where that shows columns.

    Args:
        lines: pieces of lines, in any order.
    """
    return tuple(row for block in _blocks(list(lines), 0) for row in _rows(block))


def _blocks(lines: list[OcrLine], depth: int) -> list[list[OcrLine]]:
    if len(lines) < 2 * _FEWEST or depth > _DEEPEST:
        return [lines]
    sides = _parted(lines, 0, _NARROWEST)
    if sides and all(map(_is_prose, sides)):
        return [block for side in sides for block in _blocks(side, depth + 1)]
    found = [_blocks(part, depth + 1) for part in _parted(lines, 1, 0.0) or ()]
    if any(len(blocks) > 1 for blocks in found):
        return [block for blocks in found for block in blocks]
    return [lines]


def _is_prose(lines: Sequence[OcrLine]) -> bool:
    return len(lines) >= _FEWEST and statistics.median(len(line.text) for line in lines) >= _PROSE


def _parted(lines: Sequence[OcrLine], axis: int, least: float) -> _Sides | None:
    """Return what is before and behind the widest gap of more than `least` along an axis (0: x, 1: y)."""
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
    """Whether two pieces stand in one row: half of the lower one's height, and not one over the other."""
    a, b = one.box, other.box
    shared = min(a[3], b[3]) - max(a[1], b[1])
    apart = a[2] <= b[0] + 0.01 or b[2] <= a[0] + 0.01
    return apart and shared > 0.5 * min(a[3] - a[1], b[3] - b[1])
