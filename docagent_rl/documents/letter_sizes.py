"""Sizes of letters that were measured in a picture."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from dataclasses import replace

from docagent_rl.documents.typography import MEASURED, Line

_BODY = 1.12
_USUAL = 0.97
_SPAN = 1.2
"""Ratio of the largest to the smallest size that are one: lines set alike measure a twelfth more or less."""

Weighted = Sequence[tuple[float, int]]
"""`(size, letters)`, sorted."""


def settled(pages: Mapping[int, Sequence[Line]]) -> dict[int, Sequence[Line]]:
    """Lines with sizes that those set alike share, as they do in a text layer.

    Sizes that OCR measures differ from line to line. What is within an eighth of the median over all letters,
    or not above the size that all but 3 in 100 have, is of the size of the body. What is larger, or smaller,
    falls into groups that span a fifth each, counted from there, and gets the median of its group. Lines of
    text layers stay as they are.

    Args:
        pages: lines of a document by page.
    """
    measured = sorted(
        (line.style.size, len(line.text))
        for lines in pages.values()
        for line in lines
        if line.style and line.style.font == MEASURED and line.style.size > 0
    )
    if not measured:
        return dict(pages)
    groups = _groups(measured)
    starts = [group[0][0] for group in groups]
    sizes = [round(_quantile(group, 0.5), 1) for group in groups]

    def one(line: Line) -> Line:
        style = line.style
        if style is None or style.font != MEASURED or style.size <= 0:
            return line
        return replace(line, style=replace(style, size=sizes[bisect.bisect(starts, style.size) - 1]))

    return {page: [one(line) for line in lines] for page, lines in pages.items()}


def _groups(measured: Weighted) -> list[Weighted]:
    """Sizes that are one, from small to large."""
    body = _quantile(measured, 0.5)
    first = bisect.bisect_left(measured, (body / _BODY, 0))
    last = bisect.bisect_right(measured, (max(body * _BODY, _quantile(measured, _USUAL)), 1 << 62))
    groups = [measured[first:last]]
    while last < len(measured):
        end = bisect.bisect_left(measured, (measured[last][0] * _SPAN, 0))
        groups.append(measured[last:end])
        last = end
    while first > 0:
        start = bisect.bisect_right(measured, (measured[first - 1][0] / _SPAN, 1 << 62))
        groups.insert(0, measured[start:first])
        first = start
    return groups


def _quantile(sizes: Weighted, share: float) -> float:
    wanted, passed = share * sum(count for _, count in sizes), 0
    for size, count in sizes:
        passed += count
        if passed >= wanted:
            return size
    return sizes[-1][0]
