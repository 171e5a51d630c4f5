"""Finding tagged blocks in what a policy wrote, in time linear in its length."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from docagent_rl.actions.base import Span


@dataclass(frozen=True, slots=True)
class Block:
    """A closed block `<tag>content</tag>`.

    Args:
        tag: its name.
        outer: span of the block, tags included.
        inner: span of the content.
        nested: whether the content holds another tag of the scanner's set, opening or closing.
    """

    tag: str
    outer: Span
    inner: Span
    nested: bool


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scanner found in a text.

    Args:
        visible: the text with hidden blocks overwritten by spaces; all spans are valid in both.
        blocks: the closed blocks in order, none inside another.
        hidden: spans of the contents of the closed hidden blocks, in order.
        hidden_open: a hidden block was opened and never closed; the rest of the text was overwritten.
        opened: some tag was opened, closed or not.
        notes: spans of the contents of the closed notes that are not blank, in order.
    """

    visible: str
    blocks: tuple[Block, ...]
    hidden: tuple[Span, ...]
    hidden_open: bool
    opened: bool
    notes: tuple[Span, ...] = ()

    def content(self, block: Block) -> str:
        """Return the visible content of a block, surrounding whitespace removed."""
        start, end = block.inner
        return self.visible[start:end].strip()


class TagScanner:
    """Finds the closed blocks of a set of tags outside hidden blocks.

    A block begins at the earliest opening tag that is closed at all and ends at the first closing tag of its
    name; the search for the next block goes on behind it. Tags are exact: lower and upper case differ,
    attributes are not allowed. Whatever stands in a hidden block, thoughts for example, is never a tag.

    Args:
        tags: names of the tags to find.
        hidden: names of the tags whose blocks are blanked out first, one name after the other.
        notes: names of the tags whose blocks are blanked out next. Unlike a hidden block, a note that is
            never closed hides nothing.
    """

    def __init__(
        self, tags: Iterable[str], hidden: Iterable[str] = ("think",), notes: Iterable[str] = ()
    ) -> None:
        names = "|".join(re.escape(tag) for tag in tags)
        # no repetition in the pattern, hence no backtracking
        self._tag = re.compile(f"<(/?)({names})>")
        self._hidden = tuple(hidden)
        self._notes = tuple(notes)

    def scan(self, text: str) -> Scan:
        """Find the blocks of `text`; never raises."""
        visible, hidden, hidden_open = text, [], False
        for name in self._hidden:
            visible, spans, is_open = _blank(visible, f"<{name}>", f"</{name}>")
            hidden += spans
            hidden_open |= is_open
        notes: list[Span] = []
        for name in self._notes:
            before = visible
            visible, spans, _ = _blank(before, f"<{name}>", f"</{name}>", to_end=False)
            notes += [span for span in spans if before[slice(*span)].strip()]
        marks = list(self._tag.finditer(visible))
        return Scan(
            visible=visible,
            blocks=tuple(_blocks(marks)),
            hidden=tuple(sorted(hidden)),
            hidden_open=hidden_open,
            opened=any(not mark[1] for mark in marks),
            notes=tuple(sorted(notes)),
        )


def _blank(text: str, opening: str, closing: str, *, to_end: bool = True) -> tuple[str, list[Span], bool]:
    """Overwrite `opening … closing` by spaces; an unclosed one reaches to the end or stays."""
    pieces, spans, at = [], [], 0
    while (start := text.find(opening, at)) >= 0:
        pieces.append(text[at:start])
        inner = start + len(opening)
        end = text.find(closing, inner)
        if end < 0:
            pieces.append(" " * (len(text) - start) if to_end else text[start:])
            return "".join(pieces), spans, True
        spans.append((inner, end))
        at = end + len(closing)
        pieces.append(" " * (at - start))
    pieces.append(text[at:])
    return "".join(pieces), spans, False


def _blocks(marks: list[re.Match[str]]) -> Iterable[Block]:
    closed_by = _closing_marks(marks)
    index = 0
    while index < len(marks):
        close = closed_by[index]
        if close is None:
            index += 1
            continue
        first, last = marks[index], marks[close]
        yield Block(
            tag=first[2],
            outer=(first.start(), last.end()),
            inner=(first.end(), last.start()),
            nested=close > index + 1,
        )
        index = close + 1


def _closing_marks(marks: list[re.Match[str]]) -> list[int | None]:
    """Return for every opening mark the index of the next closing mark of its name; `None` for others."""
    found: list[int | None] = [None] * len(marks)
    next_closing: dict[str, int] = {}
    for index in range(len(marks) - 1, -1, -1):
        slash, name = marks[index].groups()
        if slash:
            next_closing[name] = index
        else:
            found[index] = next_closing.get(name)
    return found
