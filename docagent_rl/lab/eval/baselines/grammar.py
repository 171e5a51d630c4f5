"""Grammars of the turns of baselines."""

from __future__ import annotations

import re

from docagent_rl.actions.base import (
    Action,
    Answer,
    Fetch,
    Invalid,
    InvalidReason,
    ParsedTurn,
    Search,
    StopCause,
)
from docagent_rl.actions.grammar import TagGrammar, bad_argument, read_answer
from docagent_rl.actions.tags import TagScanner

_ACTION = re.compile(r"^[ \t]*\**action\**[ \t]*:[ \t]*\**[ \t]*(\w+)[ \t]*\[", re.IGNORECASE | re.MULTILINE)
_NO_ACTION = "the turn holds no line `Action: name[...]` with one of the names search, open and answer"


class ReaderGrammar:
    """One answer: the first closed `<answer>` outside of thoughts, or else all that stands there.

    Models that were never taught the tag are compared too.
    """

    def __init__(self) -> None:
        self._tagged = TagGrammar({"answer": read_answer})
        self._scanner = TagScanner(("answer",))

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """See `Grammar.parse`."""
        parsed = self._tagged.parse(text, stop)
        if not isinstance(parsed.action, Invalid) or stop is not StopCause.END_OF_TURN:
            return parsed
        scan = self._scanner.scan(text)
        said = scan.visible.strip()
        if scan.opened or scan.hidden_open or not said:
            return parsed
        start = scan.visible.index(said)
        span = (start, start + len(said))
        return ParsedTurn(Answer(span, span, said), (), scan.hidden)


class ReactGrammar:
    """ReAct (arXiv 2210.03629): `Thought: ...` and then `Action: name[argument]`, of which the first counts.

    The argument ends with the bracket that closes it, or with its line where none does. What stands in
    `<think>` is never read.
    """

    def __init__(self) -> None:
        self._scanner = TagScanner(())

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """See `Grammar.parse`."""
        scan = self._scanner.scan(text) if "<think>" in text else None
        visible = text if scan is None else scan.visible
        thoughts = () if scan is None else scan.hidden
        if stop is StopCause.CONTROL_TOKEN:
            detail = "the turn holds a control token"
            return ParsedTurn(Invalid(None, None, InvalidReason.CONTROL_TOKEN, detail), (), thoughts)
        actions = tuple(_read(visible, found) for found in _ACTION.finditer(visible))
        if actions:
            return ParsedTurn(actions[0], actions[1:], thoughts)
        reason = InvalidReason.TRUNCATED if stop is StopCause.TRUNCATED else InvalidReason.NO_ACTION
        return ParsedTurn(Invalid(None, None, reason, _NO_ACTION), (), thoughts)


def _read(text: str, found: re.Match[str]) -> Action:
    begin, end = found.end(), _closing(text, found.end())
    block, argument = (found.start(), min(end + 1, len(text))), (begin, end)
    content = text[begin:end].strip()
    match found[1].casefold():
        case "search":
            if not content:
                return bad_argument("the query is empty", block, argument)
            return Search(block, argument, content)
        case "open":
            number = re.fullmatch(r"(?:p(?:age|\.)?\s*)?0*([1-9][0-9]{0,6})", content, re.IGNORECASE)
            if number is None:
                return bad_argument("open takes the number of one page", block, argument)
            return Fetch(block, argument, (int(number[1]),))
        case "answer" | "finish":
            return Answer(block, argument, content)
    return Invalid(block, argument, InvalidReason.BAD_ARGUMENT, "there is no such action")


def _closing(text: str, begin: int) -> int:
    depth = 1
    for at in range(begin, len(text)):
        if text[at] in "[]":
            depth += 1 if text[at] == "[" else -1
            if not depth:
                return at
    line = text.find("\n", begin)
    return len(text) if line < 0 else line
