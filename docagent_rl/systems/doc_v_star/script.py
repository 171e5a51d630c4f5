"""Agents of Doc-V* without a model: thoughts in blocks, retrieval, fetching, answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Protocol, cast

from docagent_rl.envs.script import Act, Move, Script, ScriptContext, StateT, TurnWriter
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.systems.doc_v_star.actions import ThoughtBlock
from docagent_rl.systems.doc_v_star.config import DocVStarConfig

_BODIES = {
    ThoughtBlock.ANALYSIS: ("Look.", "See.", "Check."),
    ThoughtBlock.PLAN: ("Search.", "Read."),
    ThoughtBlock.SUMMARY: ("Found.", "Open."),
}
"""One-word bodies, since five pairs of tags are long enough already."""
_ABSENT = 0.04
"""Share of fetches that name a page that does not exist."""


class _DocVStarWriter(TurnWriter[DocVStarConfig, StateT]):
    title = "Doc-V*"
    tags: ClassVar = {
        Move.SEARCH: "retrieval_page",
        Move.FETCH: "fetch_page",
        Move.ANSWER: "answer",
    }

    def action(self, act: Act, state: StateT) -> str:
        """See `TurnWriter`."""
        return f"<action>{super().action(act, state)}</action>"


class DocVStarAgent(_DocVStarWriter[AgentState], ScriptedAgent[DocVStarConfig]):
    """Retrieves the first gold page, fetches the others by number, lists relevant pages,
    answers.
    """

    thoughts: ClassVar = {
        Move.SEARCH: "Look for pages about {}.",
        Move.FETCH: "Open the pages that should hold {}.",
        Move.ANSWER: "Answer about {}.",
    }

    @property
    def pages_a_search(self) -> int:
        """See `ScriptedAgent`; the minimum over all document lengths."""
        return self.config.retrieval.pages or 1

    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """See `ScriptedAgent`."""
        if state.last:
            return (Move.ANSWER,)
        search = (Move.SEARCH,) if self.config.retrieval.enabled else ()
        fetch = (Move.FETCH,) if self.config.fetch.enabled else ()
        return (*search, *fetch, Move.ANSWER)

    def right(self, state: AgentState) -> Act:
        """See `ScriptedAgent`."""
        if state.last or not (state.missing or (not state.searches and not state.seen)):
            return Act(Move.ANSWER, text=state.answer)
        by_number = self.config.fetch.enabled and (
            state.searches or not self.config.retrieval.enabled
        )
        if state.missing and by_number:
            return Act(Move.FETCH, pages=tuple(state.missing[: self.config.fetch.max_pages]))
        if self.config.retrieval.enabled:
            return self.search_for(state)
        return Act(Move.ANSWER, text=state.answer)

    def needs(self, state: AgentState) -> int:
        """See `ScriptedAgent`."""
        return (
            min(len(state.missing), 1 + -(-len(state.missing) // self.config.fetch.max_pages)) + 1
        )

    def thought(self, act: Act, state: AgentState) -> str:
        """See `ScriptedAgent`; returns the blocks of the turn."""
        word = state.word()
        analysis = f"<analysis>The question is about {word}.</analysis>"
        plan = str(self.thoughts[act.move]).format(word)
        if state.turn == 1:
            return f"{analysis}<plan>{plan}</plan><summary>Nothing was read yet.</summary>"
        relevant = ", ".join(str(page.page) for page in state.brought if page in state.gold)
        found = f"Page {relevant} matters." if relevant else "Nothing new."
        first = analysis if self.config.thought.analysis else ""
        return (
            f"{first}<relevant_pages>[{relevant}]</relevant_pages><summary>{found} {plan}</summary>"
        )

    def argument(self, act: Act, state: AgentState) -> object:
        """See `ScriptedAgent`."""
        return (
            [page.page for page in act.pages]
            if act.move is Move.FETCH
            else super().argument(act, state)
        )


class DocVStarScript(_DocVStarWriter[ScriptContext], Script[DocVStarConfig]):
    """Mostly looks for pages in the first turn, and answers more often later."""

    warm_up: ClassVar = {"pool": 96, "short_steps": 180, "full_steps": 20}

    def filling(self) -> DocVStarScript:
        """See `Script.filling`."""
        return FullDocVStar(self.config)

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`."""
        search = 0.4 * self.config.retrieval.enabled
        fetch = 0.6 * self.config.fetch.enabled
        return {
            Move.SEARCH: search,
            Move.FETCH: fetch,
            Move.ANSWER: 0.05 if context.turn == 1 else 1.0,
        }

    def thought(self, act: Act, state: ScriptContext) -> str:
        """See `TurnWriter`; returns the blocks of the turn."""
        first = state.turn == 1
        due = [ThoughtBlock.PLAN if first else ThoughtBlock.RELEVANT_PAGES, ThoughtBlock.SUMMARY]
        if first or self.config.thought.analysis:
            due.insert(0, ThoughtBlock.ANALYSIS)
        return "".join(f"<{block}>{self._body(block, state)}</{block}>" for block in due)

    def argument(self, act: Act, state: ScriptContext) -> object:
        """See `TurnWriter`."""
        if act.move is not Move.FETCH:
            return super().argument(act, state)
        if state.chance(_ABSENT):
            return [state.absent_page()]
        return state.likely_pages(min(2, self.config.fetch.max_pages))

    def _body(self, block: ThoughtBlock, state: ScriptContext) -> object:
        if block is not ThoughtBlock.RELEVANT_PAGES:
            return state.rng.choice(_BODIES[block])
        # the pages just shown, or sometimes only the gold pages among them
        right = [ref.page for ref in state.brought if ref in state.gold]
        return right if right and state.chance(0.3) else state.shown


class _Paged(Protocol):
    num_pages: int


class FullDocVStar(DocVStarScript):
    """Opens as many pages in each turn as allowed, going through the document in order."""

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`."""
        return super().moves(context) if context.last else {Move.FETCH: 1.0}

    def argument(self, act: Act, state: ScriptContext) -> object:
        """See `TurnWriter`; a fetch names the next pages."""
        if act.move is not Move.FETCH:
            return super().argument(act, state)
        # pages count from 1, and after the last page the first one follows again
        number = cast("_Paged", state).num_pages
        first = (state.turn - 1) * self.config.fetch.max_pages
        positions = range(first, first + self.config.fetch.max_pages)
        return [position % number + 1 for position in positions]


AGENT = DocVStarAgent
SCRIPT = DocVStarScript
