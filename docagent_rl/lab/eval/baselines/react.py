"""ReAct (arXiv 2210.03629) with the tools of document agents: search, open a page, answer."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import ClassVar

from pydantic import Field

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
from docagent_rl.actions.grammar import TagScanner, bad_argument
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import Part, TextPart, UnknownActionError
from docagent_rl.envs.effects import NoNewPage, PagesShown
from docagent_rl.envs.turn_log import LoggedTurn, RefusedError
from docagent_rl.lab.eval.baselines.env import BaselineEnv, BaselineState, TurnsConfig

_PARTS = "system user page_label page_text no_text no_page feedback last_turn observation"
_VARIABLES = "question num_pages first_page last_page turns top_k page doc_id text several reason"

_ACTION = re.compile(
    r"^[ \t]*\**action\**[ \t]*:[ \t]*\**[ \t]*(\w+)[ \t]*\[", re.IGNORECASE | re.MULTILINE
)
_SCANNER = TagScanner(())
_NO_ACTION = (
    "the turn holds no line `Action: name[...]` with one of the names search, open and answer"
)


class ReactConfig(TurnsConfig):
    """Configuration of `ReactEnv`."""

    top_k: int = Field(1, ge=1)
    prompt: ClassVar = "baseline_react"


class ReactGrammar:
    """Grammar of ReAct: `Thought: ...`, then `Action: name[argument]`; the first action counts.

    The argument ends at the matching closing bracket, or at the end of the line if there is none.
    Text inside `<think>` is never parsed.
    """

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """See `Grammar.parse`."""
        scan = _SCANNER.scan(text) if "<think>" in text else None
        visible = text if scan is None else scan.visible
        thoughts = () if scan is None else scan.hidden
        if stop is StopCause.CONTROL_TOKEN:
            detail = "the turn holds a control token"
            return ParsedTurn(
                Invalid(None, None, InvalidReason.CONTROL_TOKEN, detail), (), thoughts
            )
        actions = tuple(_read(visible, found) for found in _ACTION.finditer(visible))
        if actions:
            return ParsedTurn(actions[0], actions[1:], thoughts)
        reason = InvalidReason.TRUNCATED if stop is StopCause.TRUNCATED else InvalidReason.NO_ACTION
        return ParsedTurn(Invalid(None, None, reason, _NO_ACTION), (), thoughts)


def _read(text: str, found: re.Match[str]) -> Action:
    begin = found.end()
    end = _closing(text, found.end())
    block = (found.start(), min(end + 1, len(text)))
    argument = (begin, end)
    content = text[begin:end].strip()
    match found[1].casefold():
        case "search":
            if not content:
                return bad_argument("the query is empty", block, argument)
            return Search(block, argument, content)
        case "open":
            number = re.fullmatch(
                r"(?:p(?:age|\.)?\s*)?0*([1-9][0-9]{0,6})", content, re.IGNORECASE
            )
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


class ReactEnv(BaselineEnv[ReactConfig]):
    """A loop of thoughts, actions and observations.

    A search shows its best pages that were not shown yet; pages are opened by number in the
    question's document. An invalid turn counts and is answered with a message. In the last turn
    the agent can only answer.
    """

    title = "ReAct"
    spec = PromptSpec(frozenset(_PARTS.split()), variables=frozenset(_VARIABLES.split()))

    @staticmethod
    def make_grammar(config: ReactConfig) -> ReactGrammar:
        """See `System.make_grammar`."""
        return ReactGrammar()

    def variables(self, state: BaselineState) -> Mapping[str, object]:
        """See `BaselineEnv.variables`; adds the number of turns and of a search's pages."""
        turns = self._config.max_turns
        top_k = self._config.top_k
        return {**super().variables(state), "turns": turns, "top_k": top_k}

    async def execute(self, state: BaselineState, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """See `ToolEnv.execute`; announces the last turn, in which the agent can only answer."""
        parts = await super().execute(state, logged, text)
        last = logged.turn == self._config.max_turns - 1
        after = [TextPart(f"\n{self.text('last_turn')}")] if last else []
        return [TextPart(f"{self.text('observation')}\n"), *parts, *after]

    async def act(self, state: BaselineState, logged: LoggedTurn) -> Sequence[Part]:
        """Search, or open a page."""
        action = logged.action
        doc_id = state.sample.doc_id
        if isinstance(action, Search):
            return await self._search(state, logged, action.query)
        if not isinstance(action, Fetch):
            raise UnknownActionError(self.title, action)
        pages = state.pages
        if action.pages[0] not in pages:
            numbers = "" if pages[0] == 1 else f", numbers {pages[0]} to {pages[-1]}"
            raise RefusedError(f"the document has {len(pages)} pages{numbers}")
        return await self._show(state, logged, [PageRef(doc_id, action.pages[0])])

    async def _search(self, state: BaselineState, logged: LoggedTurn, query: str) -> Sequence[Part]:
        hits = await self.search(
            logged,
            query,
            doc_id=self.searched(state.sample),
            top_k=self._config.top_k,
            exclude=frozenset(state.shown),
        )
        if not hits:
            logged.effect = NoNewPage(hits=0)
            return [self.part("no_page")]
        return await self._show(state, logged, [hit.ref for hit in hits])

    async def _show(
        self, state: BaselineState, logged: LoggedTurn, refs: Sequence[PageRef]
    ) -> Sequence[Part]:
        shown = await asyncio.to_thread(lambda: list(self.shown_pages(refs, logged.turn)))
        logged.image_tokens = sum(page.image_tokens for page in shown)
        logged.effect = PagesShown(state.show(shown))
        return [part for page in shown for part in page.parts]
