"""Tag grammars: find the tagged blocks of a turn, pick its action and parse the block's content.

No function here raises on model output: a turn without an action, or with malformed content,
becomes `Invalid`.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from docagent_rl.actions.base import (
    Action,
    Answer,
    Box,
    Crop,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Search,
    Span,
    StopCause,
)


@dataclass(frozen=True, slots=True)
class TagBlock:
    """A closed block `<tag>content</tag>`: its span (tags included) and the span of its content.

    `nested` is true if the content contains another of the scanner's tags, opening or closing.
    """

    tag: str
    outer: Span
    inner: Span
    nested: bool


@dataclass(frozen=True, slots=True)
class TagScan:
    """The blocks found in a text.

    Args:
        visible: the text with hidden blocks overwritten by spaces; spans are valid in both texts.
        blocks: the closed blocks in order; blocks do not nest.
        hidden: spans of the contents of the closed hidden blocks, in order.
        hidden_open: a hidden block was opened but never closed; the rest of the text was
            overwritten.
        opened: at least one tag was opened, whether or not it was closed.
        notes: spans of the contents of the closed notes that are not blank, in order.
    """

    visible: str
    blocks: tuple[TagBlock, ...]
    hidden: tuple[Span, ...]
    hidden_open: bool
    opened: bool
    notes: tuple[Span, ...] = ()

    def content(self, block: TagBlock) -> str:
        """Return the visible content of a block, stripped of surrounding whitespace."""
        start, end = block.inner
        return self.visible[start:end].strip()


class TagScanner:
    """Finds the closed blocks of a set of tags outside hidden blocks.

    A block begins at the earliest opening tag that has a matching closing tag and ends at the first
    closing tag of the same name; the search for the next block continues after it. Tags match
    exactly: they are case-sensitive and take no attributes. Text inside a hidden block, such as a
    thought, never counts as a tag.

    Args:
        tags: names of the tags to find.
        hidden: names of the tags whose blocks are blanked out first, one name after another.
        notes: names of the tags whose blocks are blanked out next. Unlike a hidden block, a note
            that is never closed hides nothing.
    """

    def __init__(
        self, tags: Iterable[str], hidden: Iterable[str] = ("think",), notes: Iterable[str] = ()
    ) -> None:
        names = "|".join(re.escape(tag) for tag in tags)
        # the pattern contains no repetition, so it cannot backtrack
        self._tag = re.compile(f"<(/?)({names})>")
        self._hidden = tuple(hidden)
        self._notes = tuple(notes)

    def scan(self, text: str) -> TagScan:
        """Find the blocks of `text`; never raises."""
        visible = text
        hidden = []
        hidden_open = False
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
        return TagScan(
            visible=visible,
            blocks=tuple(_blocks(marks)),
            hidden=tuple(sorted(hidden)),
            hidden_open=hidden_open,
            opened=any(not mark[1] for mark in marks),
            notes=tuple(sorted(notes)),
        )


def _blank(
    text: str, opening: str, closing: str, *, to_end: bool = True
) -> tuple[str, list[Span], bool]:
    """Overwrite `opening … closing` with spaces.

    An unclosed block is overwritten up to the end of the text if `to_end`, and kept otherwise.

    Returns:
        The text, the spans of the contents of the closed blocks, and whether a block was unclosed.
    """
    pieces = []
    spans = []
    at = 0
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


def _blocks(marks: list[re.Match[str]]) -> Iterable[TagBlock]:
    closed_by = _closing_marks(marks)
    index = 0
    while index < len(marks):
        close = closed_by[index]
        if close is None:
            index += 1
            continue
        first = marks[index]
        last = marks[close]
        yield TagBlock(
            tag=first[2],
            outer=(first.start(), last.end()),
            inner=(first.end(), last.start()),
            nested=close > index + 1,
        )
        index = close + 1


def _closing_marks(marks: list[re.Match[str]]) -> list[int | None]:
    """Return, for every opening tag, the index of the next closing tag of its name.

    The entry is `None` for closing tags and for opening tags that are never closed.
    """
    found: list[int | None] = [None] * len(marks)
    next_closing: dict[str, int] = {}
    for index in range(len(marks) - 1, -1, -1):
        slash, name = marks[index].groups()
        if slash:
            next_closing[name] = index
        else:
            found[index] = next_closing.get(name)
    return found


Reader = Callable[[str, Span, Span], Action]
"""`(content, block span, content span) -> action`: parse the stripped content of a block.

A reader never raises.
"""

_DETAIL = {
    InvalidReason.NO_ACTION: "the turn holds no action",
    InvalidReason.UNCLOSED: "an action tag was opened and not closed",
    InvalidReason.NESTED: "the action holds another action tag",
    InvalidReason.TRUNCATED: "the turn was cut off before an action was complete",
    InvalidReason.CONTROL_TOKEN: "the turn holds a control token",
}
_BOX_FORM = "the box must be a JSON list of four numbers"
_THOUGHT_OPEN = "the thought was never closed, so nothing after it counts as an action"


class TagGrammar:
    """Executes the first closed block of a turn that is not inside a thought.

    Rules, in this order:

    1. A turn that ended at a control token is `CONTROL_TOKEN`, whatever its text.
    2. Closed hidden blocks are blanked out; an unclosed one is blanked out to the end of the turn.
    3. The action is the first closed block that remains; if it contains another action tag, it is
       `NESTED`.
    4. Without a closed block, the turn is `TRUNCATED` if it hit its cap, else `UNCLOSED` if a tag
       was opened, else `NO_ACTION`.
    5. Later closed blocks are surplus: they are parsed but not executed.

    Args:
        readers: the function that parses the content, for every action tag.
        hidden: names of the tags whose content is never scanned for actions.
        notes: names of further such tags, whose blocks count only if they are closed.
    """

    def __init__(
        self,
        readers: Mapping[str, Reader],
        hidden: Iterable[str] = ("think",),
        notes: Iterable[str] = (),
    ) -> None:
        self._readers = dict(readers)
        self._scanner = TagScanner(self._readers, hidden, notes)

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """Parse one assistant turn (see `Grammar`)."""
        scan = self._scanner.scan(text)
        actions = tuple(self._read(scan, block) for block in scan.blocks)
        if stop is StopCause.CONTROL_TOKEN:
            return ParsedTurn(
                _invalid(InvalidReason.CONTROL_TOKEN), actions, scan.hidden, scan.notes
            )
        if actions:
            return ParsedTurn(actions[0], actions[1:], scan.hidden, scan.notes)
        return ParsedTurn(_missing(scan, stop), (), scan.hidden, scan.notes)

    def _read(self, scan: TagScan, block: TagBlock) -> Action:
        if block.nested:
            return _invalid(InvalidReason.NESTED, block.outer, block.inner)
        return self._readers[block.tag](scan.content(block), block.outer, block.inner)


def _missing(scan: TagScan, stop: StopCause) -> Invalid:
    if stop is StopCause.TRUNCATED:
        return _invalid(InvalidReason.TRUNCATED)
    if scan.opened:
        return _invalid(InvalidReason.UNCLOSED)
    if scan.hidden_open:
        return Invalid(None, None, InvalidReason.NO_ACTION, _THOUGHT_OPEN)
    return _invalid(InvalidReason.NO_ACTION)


def _invalid(
    reason: InvalidReason, outer: Span | None = None, inner: Span | None = None
) -> Invalid:
    return Invalid(outer, inner, reason, _DETAIL[reason])


def read_search(content: str, block: Span, argument: Span) -> Action:
    """Parse a query: any text that is not blank."""
    if not content:
        return bad_argument("the query is empty", block, argument)
    return Search(block, argument, content)


def read_answer(content: str, block: Span, argument: Span) -> Action:
    """Parse an answer: any text; a blank answer ends the trajectory too."""
    return Answer(block, argument, content)


def read_box(content: str, block: Span, argument: Span) -> Action:
    """Parse one box `[x1, y1, x2, y2]`: a strict JSON list of four finite, non-negative numbers.

    The environment checks whether the box lies on an image.
    """
    try:
        value = strict_json(content)
    # deeply nested brackets overflow the parser's stack
    except (ValueError, RecursionError):
        return bad_argument(_BOX_FORM, block, argument)
    if (
        not isinstance(value, list)
        or len(value) != 4
        or not all(isinstance(n, float) for n in value)
    ):
        return bad_argument(_BOX_FORM, block, argument)
    if not all(math.isfinite(n) and n >= 0 for n in value):
        return bad_argument(
            "the numbers of the box must be finite and not negative", block, argument
        )
    x1, y1, x2, y2 = value
    box: Box = (x1, y1, x2, y2)
    return Crop(block, argument, (box,))


def strict_json(text: str) -> Any:
    """Parse JSON with every number as a float; integers that are too large become infinity.

    Booleans stay booleans.

    Raises:
        ValueError: the text is not JSON, or contains NaN or Infinity, which JSON does not define.
        RecursionError: the text is nested too deeply.
    """
    return json.loads(text, parse_int=float, parse_constant=_refuse_constant)


def bad_argument(detail: str, block: Span | None, argument: Span | None) -> Invalid:
    """Return the `Invalid` action for a well-formed block whose argument cannot be executed."""
    return Invalid(block, argument, InvalidReason.BAD_ARGUMENT, detail)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
