"""The thoughts of Doc-V*: blocks for analysis, plan, relevant pages and a summary (section 3.4)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.actions.base import Span
from docagent_rl.actions.tags import Block, TagScanner


class Fault(StrEnum):
    """Breaches of the grammar; any of them costs the trajectory its format term."""

    ACTION = "action"
    """There is no action that can be executed."""
    FRAME = "frame"
    """The turn is not one thought followed by one action block, or the action block holds other text."""
    BLOCKS = "blocks"
    """The thought is not made of the blocks of this turn: each once, closed, in order, nothing in between."""
    BLANK = "blank"
    """A block that needs a body has none."""
    RELEVANT_PAGES = "relevant_pages"
    """A relevant page is no whole number, or the document has no such page."""
    FETCH_PAGES = "fetch_pages"
    """The same for a page to fetch."""
    ANSWER = "answer"
    """The answer is blank."""
    TRUNCATED = "truncated"
    """The turn was cut off behind its action."""


class ThoughtBlock(StrEnum):
    """The blocks of a thought."""

    ANALYSIS = "analysis"
    PLAN = "plan"
    RELEVANT_PAGES = "relevant_pages"
    SUMMARY = "summary"


FIRST_BLOCKS = (ThoughtBlock.ANALYSIS, ThoughtBlock.PLAN, ThoughtBlock.SUMMARY)
LATER_BLOCKS = (ThoughtBlock.ANALYSIS, ThoughtBlock.RELEVANT_PAGES, ThoughtBlock.SUMMARY)

_SCANNER = TagScanner(ThoughtBlock, hidden=())
_SEPARATORS = re.compile(r"[,\s]+")
_MAX_DIGITS = 12


def read_page_list(text: str) -> tuple[tuple[int, ...], int]:
    """Read `[3, 7]`, `3, 7` or `3 7`: brackets are optional, commas and blanks separate.

    Returns:
        The whole numbers in order, each once, whether or not such pages exist, and the number of items that
        are no whole numbers, or absurdly long ones.
    """
    body = text.strip()
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    items = [item for item in _SEPARATORS.split(body) if item]
    numbers = [int(item) for item in items if _is_number(item)]
    return tuple(dict.fromkeys(numbers)), len(items) - len(numbers)


@dataclass(frozen=True, slots=True)
class ThoughtReading:
    """The contents of the closed thoughts of a turn; spans are of the whole turn.

    Args:
        faults: what is wrong with them.
        summary: span of the body of the last closed summary that is not blank.
        relevant: the whole numbers listed as relevant pages, in order, each once, also from faulty thoughts.
    """

    faults: frozenset[Fault]
    summary: Span | None
    relevant: tuple[int, ...]


def read_thoughts(text: str, thoughts: Sequence[Span], due: Sequence[ThoughtBlock]) -> ThoughtReading:
    """Read the blocks of a turn's closed thoughts, whose spans are given, against the blocks that are due."""
    per_thought = [_blocks(text, span) for span in thoughts]
    blocks = [block for found in per_thought for block in found]
    bodies = [text[slice(*block.inner)].strip() for block in blocks]
    faults = set()
    loose = any(_loose_text(text, span, found) for span, found in zip(thoughts, per_thought, strict=True))
    if [block.tag for block in blocks] != list(due) or loose or any(block.nested for block in blocks):
        faults.add(Fault.BLOCKS)
    relevant: dict[int, None] = {}
    summary = None
    for block, body in zip(blocks, bodies, strict=True):
        if block.tag == ThoughtBlock.RELEVANT_PAGES:
            pages, strays = read_page_list(body)
            relevant.update(dict.fromkeys(pages))
            if strays:
                faults.add(Fault.RELEVANT_PAGES)
        elif not body:
            faults.add(Fault.BLANK)
        elif block.tag == ThoughtBlock.SUMMARY and not block.nested:
            summary = block.inner
    return ThoughtReading(frozenset(faults), summary, tuple(relevant))


def _blocks(text: str, span: Span) -> list[Block]:
    offset = span[0]
    return [
        Block(block.tag, moved(block.outer, offset), moved(block.inner, offset), block.nested)
        for block in _SCANNER.scan(text[slice(*span)]).blocks
    ]


def _loose_text(text: str, span: Span, blocks: Iterable[Block]) -> bool:
    """Return whether a thought holds anything but blanks outside its blocks."""
    at, end = span
    for block in blocks:
        if text[at : block.outer[0]].strip():
            return True
        at = block.outer[1]
    return bool(text[at:end].strip())


def moved(span: Span, offset: int) -> Span:
    """Return a span of a part of a text as a span of the whole."""
    return span[0] + offset, span[1] + offset


def _is_number(item: str) -> bool:
    digits = item.removeprefix("-")
    # ASCII only, and no longer than what int() reads at once
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS
