"""Seekers of MM-Doc-R1 without a model: search by keywords, have pages read, finish."""

import json
from collections.abc import Mapping
from typing import ClassVar

from docagent_rl.envs.script import Act, Move, Script, ScriptContext, StateT, TurnWriter, long_words
from docagent_rl.envs.scripted_agent import AgentState, ScriptedAgent
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig

_KEYWORDS = 6


class _SeekerWriter(TurnWriter[MMDocConfig, StateT]):
    title = "MM-Doc-R1"
    tags: ClassVar = {Move.SEARCH: "search", Move.READ: "read"}

    def write(self, act: Act, state: StateT) -> str:
        """See `TurnWriter`."""
        return f"{self.thought(act, state)} {self.action(act, state)}"

    def action(self, act: Act, state: StateT) -> str:
        """See `TurnWriter`."""
        return "<FINISH>" if act.move is Move.FINISH else super().action(act, state)


class MMDocAgent(_SeekerWriter[AgentState], ScriptedAgent[MMDocConfig]):
    """Searches once, has the gold pages read and finishes; the answer agent writes the answer."""

    thoughts: ClassVar = {
        Move.SEARCH: "I look for {}.",
        Move.READ: "These pages should tell about {}.",
        Move.FINISH: "What was read tells the {}.",
    }

    @property
    def pages_a_search(self) -> int:
        """See `ScriptedAgent`."""
        return self.config.search.top_k

    @property
    def _pages_a_read(self) -> int:
        return self.config.read.max_pages * self.config.read.max_entries

    def look(self, state: AgentState) -> None:
        """See `ScriptedAgent`; only pages that were read count as shown."""
        state.look(list(state.effect.read))

    def legal(self, state: AgentState) -> tuple[Move, ...]:
        """See `ScriptedAgent`."""
        return (Move.SEARCH, Move.READ, Move.FINISH)

    def right(self, state: AgentState) -> Act:
        """See `ScriptedAgent`."""
        spare = state.left > self.needs(state)
        if not state.searches and spare:
            return Act(Move.SEARCH, query=state.sample.question)
        own = [page for page in state.missing if page.doc_id == state.sample.doc_id]
        if own:
            return Act(Move.READ, pages=tuple(own[: self._pages_a_read]))
        if not state.seen and state.brought and not state.last:
            return Act(Move.READ, pages=tuple(state.brought[:1]))
        return Act(Move.FINISH)

    def needs(self, state: AgentState) -> int:
        """See `ScriptedAgent`."""
        return -(-len(state.missing) // self._pages_a_read) + 1

    def argument(self, act: Act, state: AgentState) -> object:
        """See `ScriptedAgent`."""
        if act.move is not Move.READ:
            keywords = list(dict.fromkeys(long_words(act.query)))[:_KEYWORDS]
            return json.dumps(keywords, ensure_ascii=False)
        pages = [page.page for page in act.pages]
        most = self.config.read.max_pages
        entries = [
            {"page_ids": pages[first : first + most], "query": state.sample.question}
            for first in range(0, len(pages), most)
        ]
        return json.dumps(entries, ensure_ascii=False)


class MMDocScript(_SeekerWriter[ScriptContext], Script[MMDocConfig]):
    """Searches, has found or guessed pages read, and finishes."""

    thoughts: ClassVar = {
        Move.SEARCH: "I need the {}.",
        Move.READ: "I read the {}.",
        Move.FINISH: "The {} is enough.",
    }
    warm_up: ClassVar = {"pool": 160, "short_steps": 280, "full_steps": 40}

    def moves(self, context: ScriptContext) -> Mapping[Move, float]:
        """See `Script.moves`."""
        if context.turn == 1:
            return {Move.SEARCH: 0.35, Move.READ: 0.6, Move.FINISH: 0.05}
        return {Move.SEARCH: 0.15, Move.READ: 0.6, Move.FINISH: 0.25}

    def argument(self, act: Act, state: ScriptContext) -> object:
        """See `TurnWriter`; reads found pages, or pages that often contain evidence."""
        if act.move is not Move.READ:
            return json.dumps(state.query())
        most = self.config.read.max_pages
        if state.shown and state.chance(0.4):
            pages = state.shown[:most]
        else:
            pages = state.likely_pages(state.rng.randint(min(2, most), most))
        return json.dumps([{"page_ids": pages, "query": state.word()}])


AGENT = MMDocAgent
SCRIPT = MMDocScript
