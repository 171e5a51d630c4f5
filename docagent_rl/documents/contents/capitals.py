"""Headings in capitals, as manual pages have them: NAME, SYNOPSIS; and those that hang out below them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from docagent_rl.documents.contents.labels import is_caption
from docagent_rl.documents.contents.pages import NO_PRINT, Block, Pages, body_print, print_of
from docagent_rl.documents.typography import MEASURED, Line

_LONGEST = 80
_FEWEST_LETTERS = 3
_FEWEST = 3
_NEAR = 0.01
"""Of a page's width: lines whose left sides differ by less begin at one margin."""
_SENTENCE_END = (".", ",", ";", ":", "!", "-")
_SIGNS = frozenset("<>=$[]{}#\\|~^_*@")
_MANUAL = frozenset({"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "FILES", "SEE ALSO"})
_FEWEST_OF_MANUAL = 2
_OF_TEXT = 0.1


def capital_headings(pages: Pages) -> list[Block]:
    """Return lines in capitals at the left margin, with lines in their font that hang out below them.

    Where the print is known they are set in another font than most letters, or larger; where it is not, or
    was measured in a picture, at least two are names of sections that manual pages have. Fewer than three are
    none.
    """
    usual, _ = body_print(pages)
    capitals = [
        (block, line)
        for block, line in _short_lines(pages)
        if _is_capital(block.text)
        and (_is_unknown(line) or block.print.font != usual.font or block.print.size > usual.size)
    ]
    margin = _margin(line for _, line in capitals)
    found = [block for block, line in capitals if _left(line) < margin + _NEAR]
    names = {block.text for block in found}
    unknown = any(_is_unknown(line) for _, line in capitals)
    if len(names) < _FEWEST or (unknown and len(names & _MANUAL) < _FEWEST_OF_MANUAL):
        return []
    fonts = {block.print.font for block in found} - {usual.font, NO_PRINT.font, MEASURED}
    text = _text_margin(pages, margin)
    hanging = [
        block
        for block, line in _short_lines(pages)
        if block.print.font in fonts
        and block.print.size >= usual.size
        and margin + _NEAR < _left(line) < text - _NEAR
        and line.text[0].isupper()
    ]
    return sorted([*found, *hanging])


def _short_lines(pages: Pages) -> Iterator[tuple[Block, Line]]:
    """Yield lines that are short enough for a heading, and no sentences, signs of programs or captions."""
    for page, lines in pages.items():
        for index, line in enumerate(lines):
            text = line.text
            fits = len(text) <= _LONGEST and sum(map(str.isalpha, text)) >= _FEWEST_LETTERS
            plain = not text.endswith(_SENTENCE_END) and not _SIGNS.intersection(text)
            if fits and plain and not is_caption(text):
                yield Block(page, index, index, text, print_of(line)), line


def _is_capital(text: str) -> bool:
    return text.isupper() and text[0].isalpha()


def _is_unknown(line: Line) -> bool:
    return line.style is None or line.style.font == MEASURED


def _left(line: Line) -> float:
    return line.box[0] if line.box else 0.0


def _margin(lines: Iterable[Line]) -> float:
    """Return the left side that at least three lines share, the one furthest out."""
    counts = Counter(round(_left(line), 2) for line in lines)
    return min((side for side, count in counts.items() if count >= _FEWEST), default=0.0)


def _text_margin(pages: Pages, margin: float) -> float:
    """Return the left side behind a margin at which a tenth of the letters begin, the one furthest out."""
    letters: Counter[float] = Counter()
    for line in (line for lines in pages.values() for line in lines):
        letters[round(_left(line), 2)] += len(line.text)
    least = _OF_TEXT * sum(letters.values())
    sides = (side for side, count in letters.items() if side > margin + _NEAR and count >= least)
    return min(sides, default=margin)
