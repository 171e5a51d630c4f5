"""The turns of Doc-V*: a thought made of blocks, then one wrapped action (section 3.4)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.actions.base import (
    Action,
    Answer,
    Fetch,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Span,
    StopCause,
)
from docagent_rl.actions.grammar import (
    TagBlock,
    TagScan,
    TagScanner,
    bad_argument,
    read_answer,
    read_search,
)


class Fault(StrEnum):
    """A violation of the grammar; any violation costs the trajectory its format term."""

    ACTION = "action"
    """There is no executable action."""
    FRAME = "frame"
    """The turn is not one thought followed by one action block, or the action block contains other
    text.
    """
    BLOCKS = "blocks"
    """The thought does not consist of exactly the required blocks, closed and in order, with
    nothing in between.
    """
    BLANK = "blank"
    """A block that needs a body has none."""
    RELEVANT_PAGES = "relevant_pages"
    """A relevant page is not an integer, or the document has no such page."""
    FETCH_PAGES = "fetch_pages"
    """A page to fetch is not an integer, or the document has no such page."""
    ANSWER = "answer"
    """The answer is blank."""
    TRUNCATED = "truncated"
    """The turn was cut off after its action."""


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
    """Parse `[3, 7]`, `3, 7` or `3 7`: brackets are optional, items are separated by commas or
    spaces.

    Returns the distinct integers in order, whether or not such pages exist, and the number of items
    that are not integers or are far too long.
    """
    body = text.strip()
    if body.startswith("[") and body.endswith("]"):
        body = body[1:-1]
    items = [item for item in _SEPARATORS.split(body) if item]
    numbers = [int(item) for item in items if _is_number(item)]
    return tuple(dict.fromkeys(numbers)), len(items) - len(numbers)


def read_thoughts(
    text: str, thoughts: Sequence[Span], due: Sequence[ThoughtBlock]
) -> tuple[set[Fault], Span | None, tuple[int, ...]]:
    """Parse the blocks of a turn's closed thoughts, given by their spans, and compare them with
    `due`.

    Returns the faults, the span of the body of the last closed summary that is not blank, and the
    distinct integers listed as relevant pages, in order, including those of faulty thoughts.
    """
    per_thought = [_blocks(text, span) for span in thoughts]
    blocks = [block for found in per_thought for block in found]
    bodies = [text[slice(*block.inner)].strip() for block in blocks]
    faults = set()
    loose = any(
        _loose_text(text, span, found) for span, found in zip(thoughts, per_thought, strict=True)
    )
    if (
        [block.tag for block in blocks] != list(due)
        or loose
        or any(block.nested for block in blocks)
    ):
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
    return faults, summary, tuple(relevant)


def _blocks(text: str, span: Span) -> list[TagBlock]:
    offset = span[0]
    return [
        TagBlock(block.tag, moved(block.outer, offset), moved(block.inner, offset), block.nested)
        for block in _SCANNER.scan(text[slice(*span)]).blocks
    ]


def _loose_text(text: str, span: Span, blocks: Iterable[TagBlock]) -> bool:
    """Return whether a thought contains anything but whitespace outside its blocks."""
    at, end = span
    for block in blocks:
        if text[at : block.outer[0]].strip():
            return True
        at = block.outer[1]
    return bool(text[at:end].strip())


def moved(span: Span, offset: int) -> Span:
    """Return a span shifted by an offset."""
    return span[0] + offset, span[1] + offset


def _is_number(item: str) -> bool:
    digits = item.removeprefix("-")
    # ASCII only, and short enough for int()
    return digits.isascii() and digits.isdecimal() and len(digits) <= _MAX_DIGITS


_ANY_TAG = re.compile(r"</?\w+>")


class ActionTag(StrEnum):
    """The tags of the actions."""

    RETRIEVE = "retrieval_page"
    FETCH = "fetch_page"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class DocVStarTurn(ParsedTurn):
    """A parsed turn; `notes` contains the span of the summary.

    Args:
        faults: the kinds of faults, in the order of `Fault`; an executable action is executed in
            spite of them.
        summary: body of the last closed summary; empty without one.
        relevant: the distinct integers listed as relevant pages, in order.
    """

    faults: tuple[Fault, ...] = ()
    summary: str = ""
    relevant: tuple[int, ...] = ()


class DocVStarGrammar:
    """`<think>` blocks `</think><action>` one action `</action>`, with only whitespace between
    tags.

    The blocks of the first turn are `analysis`, `plan` and `summary`, those of later turns
    `analysis`, `relevant_pages` and `summary`: each exactly once, in this order, closed, with a
    body; only that of `relevant_pages` may be empty. The actions are
    `<retrieval_page>query</retrieval_page>`, `<fetch_page>[3, 7]</fetch_page>` (brackets are
    optional; commas or spaces separate the numbers) and `<answer>text</answer>`.

    The action must be outside thoughts. It is `Invalid` if there is no closed `<action>`, or if
    that contains no known action, two actions, or another tag next to the action. Any other
    violation is a `Fault` of a turn that is executed nevertheless. Blocks are parsed in closed
    thoughts only. The tag of a disabled action is unknown.
    """

    def __init__(
        self, *, retrieval: bool = True, fetch: bool = True, analysis: bool = True
    ) -> None:
        there = {ActionTag.RETRIEVE: retrieval, ActionTag.FETCH: fetch, ActionTag.ANSWER: True}
        self._later = LATER_BLOCKS if analysis else LATER_BLOCKS[1:]
        self._wrapper = TagScanner(("action",))
        self._actions = TagScanner((tag for tag in ActionTag if there[tag]), hidden=())

    def blocks(self, *, first: bool) -> tuple[ThoughtBlock, ...]:
        """Return the blocks of a thought, in order."""
        return FIRST_BLOCKS if first else self._later

    def parse(
        self, text: str, stop: StopCause = StopCause.END_OF_TURN, *, first: bool = False
    ) -> DocVStarTurn:
        """Parse one assistant turn (see `Grammar`); a `first` turn requires other thought
        blocks.
        """
        scan = self._wrapper.scan(text)
        action, faults = self._find_action(scan, stop)
        if isinstance(action, Invalid):
            faults.add(Fault.ACTION)
        elif stop is StopCause.TRUNCATED:
            faults.add(Fault.TRUNCATED)
        if isinstance(action, Answer) and not action.text:
            faults.add(Fault.ANSWER)
        breaches, summary, relevant = read_thoughts(text, scan.hidden, self.blocks(first=first))
        faults |= breaches
        if not _framed(text, scan):
            faults.add(Fault.FRAME)
        return DocVStarTurn(
            action,
            thoughts=scan.hidden,
            notes=(summary,) if summary else (),
            faults=tuple(fault for fault in Fault if fault in faults),
            summary=text[slice(*summary)].strip() if summary else "",
            relevant=relevant,
        )

    def _find_action(self, scan: TagScan, stop: StopCause) -> tuple[Action, set[Fault]]:
        if stop is StopCause.CONTROL_TOKEN:
            return _invalid(InvalidReason.CONTROL_TOKEN, "the turn holds a control token"), set()
        if not scan.blocks:
            return self._missing(scan, stop), set()
        wrapper = scan.blocks[0]
        if len(scan.blocks) > 1 or wrapper.nested:
            return _invalid(
                InvalidReason.SEVERAL, "the turn holds more than one action block"
            ), set()
        start, end = wrapper.inner
        inside = self._actions.scan(scan.visible[start:end])
        if not inside.blocks:
            if inside.opened:
                detail = "the action inside the action block was not closed"
                return _invalid(InvalidReason.UNCLOSED, detail), set()
            return _invalid(
                InvalidReason.NO_ACTION, "the action block holds no action that exists"
            ), set()
        block = inside.blocks[0]
        rest = inside.visible[: block.outer[0]] + " " + inside.visible[block.outer[1] :]
        if len(inside.blocks) > 1 or _ANY_TAG.search(rest):
            return _invalid(
                InvalidReason.SEVERAL, "the action block holds more than one tag"
            ), set()
        action, faults = _read(inside, block, offset=start)
        return action, faults | ({Fault.FRAME} if rest.strip() else set())

    def _missing(self, scan: TagScan, stop: StopCause) -> Invalid:
        if stop is StopCause.TRUNCATED:
            return _invalid(
                InvalidReason.TRUNCATED, "the turn was cut off before its action was complete"
            )
        if scan.opened:
            return _invalid(InvalidReason.UNCLOSED, "the action block was opened and not closed")
        if scan.hidden_open:
            return _invalid(
                InvalidReason.NO_ACTION, "the thought was never closed, so no action follows it"
            )
        if self._actions.scan(scan.visible).opened:
            return _invalid(InvalidReason.NO_ACTION, "the action does not stand inside action tags")
        return _invalid(InvalidReason.NO_ACTION, "the turn holds no action")


def _framed(text: str, scan: TagScan) -> bool:
    """Return whether the turn is one thought, then one action block, with only whitespace
    around.
    """
    if len(scan.hidden) != 1 or len(scan.blocks) != 1 or scan.hidden_open:
        return False
    (start, end) = scan.hidden[0]
    (left, right) = scan.blocks[0].outer
    edges = text[:start].strip(), text[end:left].strip(), text[right:].strip()
    return edges == ("<think>", "</think>", "")


def _read(scan: TagScan, block: TagBlock, *, offset: int) -> tuple[Action, set[Fault]]:
    outer = moved(block.outer, offset)
    inner = moved(block.inner, offset)
    content = scan.content(block)
    if block.nested:
        detail = "the action holds another action tag"
        return Invalid(outer, inner, InvalidReason.NESTED, detail), set()
    match ActionTag(block.tag):
        case ActionTag.RETRIEVE:
            return read_search(content, outer, inner), set()
        case ActionTag.FETCH:
            pages, strays = read_page_list(content)
            if not pages:
                return bad_argument("the list to fetch holds no page number", outer, inner), set()
            return Fetch(outer, inner, pages), {Fault.FETCH_PAGES} if strays else set()
        case ActionTag.ANSWER:
            return read_answer(content, outer, inner), set()


def _invalid(reason: InvalidReason, detail: str) -> Invalid:
    return Invalid(None, None, reason, detail)
