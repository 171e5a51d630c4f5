"""The turns of Doc-V*: a thought in blocks, then one action in a wrapper of its own (section 3.4)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.actions.base import (
    Action,
    Answer,
    Fetch,
    Invalid,
    InvalidReason,
    ParsedTurn,
    StopCause,
)
from docagent_rl.actions.grammar import bad_argument, read_answer, read_search
from docagent_rl.actions.tags import Block, Scan, TagScanner
from docagent_rl.systems.doc_v_star.thought import (
    FIRST_BLOCKS,
    LATER_BLOCKS,
    Fault,
    ThoughtBlock,
    moved,
    read_page_list,
    read_thoughts,
)

_ANY_TAG = re.compile(r"</?\w+>")


class ActionTag(StrEnum):
    """The tags of the actions."""

    RETRIEVE = "retrieval_page"
    FETCH = "fetch_page"
    ANSWER = "answer"


@dataclass(frozen=True, slots=True)
class DocVStarTurn(ParsedTurn):
    """A parsed turn. `notes` holds the span of the summary.

    Args:
        faults: what is wrong with it, each kind once, in the order of `Fault`; a turn whose action can be
            executed is executed in spite of them.
        summary: body of the last closed summary; empty without one.
        relevant: the whole numbers listed as relevant pages, in order, each once.
    """

    faults: tuple[Fault, ...] = ()
    summary: str = ""
    relevant: tuple[int, ...] = ()


class DocVStarGrammar:
    """`<think>` blocks `</think><action>` one action `</action>`, blanks free between tags, nothing else.

    The blocks of the first turn are `analysis`, `plan`, `summary`, later `analysis`, `relevant_pages`,
    `summary`: each once, in this order, closed, with a body; that of `relevant_pages` may be empty.
    The actions are `<retrieval_page>query</retrieval_page>`, `<fetch_page>[3, 7]</fetch_page>` (brackets
    optional, commas or blanks between the numbers) and `<answer>text</answer>`.

    The action is looked for outside thoughts only. It is `Invalid` when there is no closed `<action>`, or
    when that holds no known action, two of them, or another tag beside it. Everything else that is wrong
    is a `Fault` of a turn that is executed. Blocks are read in closed thoughts only. The tag of an action
    that is switched off is unknown.
    """

    def __init__(self, *, retrieval: bool = True, fetch: bool = True, analysis: bool = True) -> None:
        there = {ActionTag.RETRIEVE: retrieval, ActionTag.FETCH: fetch, ActionTag.ANSWER: True}
        self._tags = tuple(tag for tag in ActionTag if there[tag])
        self._later = LATER_BLOCKS if analysis else LATER_BLOCKS[1:]
        self._wrapper = TagScanner(("action",))
        self._actions = TagScanner(self._tags, hidden=())

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of the action tags."""
        return self._tags

    def blocks(self, *, first: bool) -> tuple[ThoughtBlock, ...]:
        """Return the blocks of a thought, in order."""
        return FIRST_BLOCKS if first else self._later

    def parse(
        self, text: str, stop: StopCause = StopCause.END_OF_TURN, *, first: bool = False
    ) -> DocVStarTurn:
        """Parse one assistant turn (see `Grammar`).

        Args:
            text: decoded text of the sampled ids, special tokens removed.
            stop: why sampling ended.
            first: read it as the first turn of an trajectory, whose thought has other blocks.
        """
        scan = self._wrapper.scan(text)
        action, faults = self._action(scan, stop)
        thought = read_thoughts(text, scan.hidden, self.blocks(first=first))
        faults |= thought.faults
        if not _framed(text, scan):
            faults.add(Fault.FRAME)
        return DocVStarTurn(
            action,
            thoughts=scan.hidden,
            notes=(thought.summary,) if thought.summary else (),
            faults=tuple(fault for fault in Fault if fault in faults),
            summary=text[slice(*thought.summary)].strip() if thought.summary else "",
            relevant=thought.relevant,
        )

    def _action(self, scan: Scan, stop: StopCause) -> tuple[Action, set[Fault]]:
        action, faults = self._find_action(scan, stop)
        if isinstance(action, Invalid):
            faults.add(Fault.ACTION)
        elif stop is StopCause.TRUNCATED:
            faults.add(Fault.TRUNCATED)
        if isinstance(action, Answer) and not action.text:
            faults.add(Fault.ANSWER)
        return action, faults

    def _find_action(self, scan: Scan, stop: StopCause) -> tuple[Action, set[Fault]]:
        if stop is StopCause.CONTROL_TOKEN:
            return _invalid(InvalidReason.CONTROL_TOKEN, "the turn holds a control token"), set()
        if not scan.blocks:
            return self._missing(scan, stop), set()
        wrapper = scan.blocks[0]
        if len(scan.blocks) > 1 or wrapper.nested:
            return _invalid(InvalidReason.SEVERAL, "the turn holds more than one action block"), set()
        start, end = wrapper.inner
        inside = self._actions.scan(scan.visible[start:end])
        if not inside.blocks:
            return _no_action(inside), set()
        block = inside.blocks[0]
        rest = inside.visible[: block.outer[0]] + " " + inside.visible[block.outer[1] :]
        if len(inside.blocks) > 1 or _ANY_TAG.search(rest):
            return _invalid(InvalidReason.SEVERAL, "the action block holds more than one tag"), set()
        action, faults = _read(inside, block, offset=start)
        return action, faults | ({Fault.FRAME} if rest.strip() else set())

    def _missing(self, scan: Scan, stop: StopCause) -> Invalid:
        if stop is StopCause.TRUNCATED:
            return _invalid(InvalidReason.TRUNCATED, "the turn was cut off before its action was complete")
        if scan.opened:
            return _invalid(InvalidReason.UNCLOSED, "the action block was opened and not closed")
        if scan.hidden_open:
            return _invalid(InvalidReason.NO_ACTION, "the thought was never closed, so no action follows it")
        if self._actions.scan(scan.visible).opened:
            return _invalid(InvalidReason.NO_ACTION, "the action does not stand inside action tags")
        return _invalid(InvalidReason.NO_ACTION, "the turn holds no action")


def _framed(text: str, scan: Scan) -> bool:
    """Return whether the turn is one thought, then one action block, and nothing but blanks around them."""
    if len(scan.hidden) != 1 or len(scan.blocks) != 1 or scan.hidden_open:
        return False
    (start, end), (left, right) = scan.hidden[0], scan.blocks[0].outer
    edges = text[:start].strip(), text[end:left].strip(), text[right:].strip()
    return edges == ("<think>", "</think>", "")


def _read(scan: Scan, block: Block, *, offset: int) -> tuple[Action, set[Fault]]:
    outer, inner = moved(block.outer, offset), moved(block.inner, offset)
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


def _no_action(inside: Scan) -> Invalid:
    if inside.opened:
        return _invalid(InvalidReason.UNCLOSED, "the action inside the action block was not closed")
    return _invalid(InvalidReason.NO_ACTION, "the action block holds no action that exists")


def _invalid(reason: InvalidReason, detail: str) -> Invalid:
    return Invalid(None, None, reason, detail)
