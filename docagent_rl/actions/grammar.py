"""Tag grammars: which block of a turn is its action, and how the content of a block is read.

Every function is total: a turn without an action and bad content become `Invalid`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
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
from docagent_rl.actions.tags import Block, Scan, TagScanner

Reader = Callable[[str, Span, Span], Action]
"""`(content, block span, content span) -> action`: read the stripped content of a block; never raises."""

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
    2. Closed hidden blocks are blanked out, an unclosed one to the end of the turn.
    3. The action is the first closed block in what remains; with another action tag inside it is `NESTED`.
    4. Without a closed block: `TRUNCATED` when the turn hit its cap, else `UNCLOSED` when a tag was opened,
       else `NO_ACTION`.
    5. Later closed blocks are surplus: parsed, not to be executed.

    Args:
        readers: for every action tag the function that reads its content.
        hidden: names of the tags that are never scanned for actions.
        notes: names of further such tags, whose blocks count only when closed.
    """

    def __init__(
        self,
        readers: Mapping[str, Reader],
        hidden: Iterable[str] = ("think",),
        notes: Iterable[str] = (),
    ) -> None:
        self._readers = dict(readers)
        self._scanner = TagScanner(self._readers, hidden, notes)

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of the action tags."""
        return tuple(self._readers)

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """Parse one assistant turn (see `Grammar`)."""
        scan = self._scanner.scan(text)
        actions = tuple(self._read(scan, block) for block in scan.blocks)
        if stop is StopCause.CONTROL_TOKEN:
            return ParsedTurn(_invalid(InvalidReason.CONTROL_TOKEN), actions, scan.hidden, scan.notes)
        if actions:
            return ParsedTurn(actions[0], actions[1:], scan.hidden, scan.notes)
        return ParsedTurn(_missing(scan, stop), (), scan.hidden, scan.notes)

    def _read(self, scan: Scan, block: Block) -> Action:
        if block.nested:
            return _invalid(InvalidReason.NESTED, block.outer, block.inner)
        return self._readers[block.tag](scan.content(block), block.outer, block.inner)


def _missing(scan: Scan, stop: StopCause) -> Invalid:
    if stop is StopCause.TRUNCATED:
        return _invalid(InvalidReason.TRUNCATED)
    if scan.opened:
        return _invalid(InvalidReason.UNCLOSED)
    if scan.hidden_open:
        return Invalid(None, None, InvalidReason.NO_ACTION, _THOUGHT_OPEN)
    return _invalid(InvalidReason.NO_ACTION)


def _invalid(reason: InvalidReason, outer: Span | None = None, inner: Span | None = None) -> Invalid:
    return Invalid(outer, inner, reason, _DETAIL[reason])


def read_search(content: str, block: Span, argument: Span) -> Action:
    """Read a query: any text that is not blank."""
    if not content:
        return bad_argument("the query is empty", block, argument)
    return Search(block, argument, content)


def read_answer(content: str, block: Span, argument: Span) -> Action:
    """Read an answer: any text; a blank one ends the trajectory too."""
    return Answer(block, argument, content)


def read_box(content: str, block: Span, argument: Span) -> Action:
    """Read one box `[x1, y1, x2, y2]`: a strict JSON list of four finite numbers, none below 0.

    Whether it lies on an image, and on how much of it, is for the environment to say.
    """
    try:
        value = strict_json(content)
    # deeply nested brackets exhaust the parser's stack
    except (ValueError, RecursionError):
        return bad_argument(_BOX_FORM, block, argument)
    if not isinstance(value, list) or len(value) != 4 or not all(isinstance(n, float) for n in value):
        return bad_argument(_BOX_FORM, block, argument)
    if not all(math.isfinite(n) and n >= 0 for n in value):
        return bad_argument("the numbers of the box must be finite and not negative", block, argument)
    x1, y1, x2, y2 = value
    box: Box = (x1, y1, x2, y2)
    return Crop(block, argument, (box,))


def strict_json(text: str) -> Any:
    """Parse JSON with every number as a float: integers too large become infinite, booleans stay booleans.

    Raises:
        ValueError: not JSON, or one of the constants NaN and Infinity that JSON does not have.
        RecursionError: nested too deeply.
    """
    return json.loads(text, parse_int=float, parse_constant=_refuse_constant)


def bad_argument(detail: str, block: Span | None, argument: Span | None) -> Invalid:
    """Return an action that is well formed but cannot be executed."""
    return Invalid(block, argument, InvalidReason.BAD_ARGUMENT, detail)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
