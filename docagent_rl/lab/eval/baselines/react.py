"""ReAct (arXiv 2210.03629) with the tools of document agents: search, open a page, answer."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.actions.base import Fetch, Search
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import AssistantTurn, Part, TextPart
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.config import ReactConfig
from docagent_rl.lab.eval.baselines.env import BaselineEnv, BaselineState
from docagent_rl.lab.eval.baselines.grammar import ReactGrammar

_PARTS = "system user page_label page_text no_text no_page feedback last_turn observation"
_VARIABLES = "question num_pages turns top_k page doc_id text several reason"


class ReactEnv(BaselineEnv):
    """A loop of thoughts, actions and observations.

    A search shows its best pages that were not shown yet, an opened page is one of the question's document.
    A turn without an action that can be carried out gets a message and counts. The last turn can only answer.
    """

    title = "ReAct"
    spec = PromptSpec(frozenset(_PARTS.split()), variables=frozenset(_VARIABLES.split()))

    @staticmethod
    def make_grammar(config: ReactConfig) -> ReactGrammar:
        """Return the grammar."""
        return ReactGrammar()

    def variables(self, state: BaselineState) -> Mapping[str, Any]:
        """See `BaselineEnv.variables`; with the turns, and the pages of a search."""
        turns, top_k = self._config.max_turns, self._config.top_k
        return {**super().variables(state), "turns": turns, "top_k": top_k}

    def read(self, state: BaselineState, turn: AssistantTurn) -> LoggedTurn:
        """Parse a turn; what it shows can be taken back until the next one."""
        state.settled = len(state.shown)
        return super().read(state, turn)

    def take_back(self, state: BaselineState) -> None:
        """Forget the pages of the last turn."""
        del state.shown[state.settled :]

    async def execute(self, state: BaselineState, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """Search, or open a page."""
        parts: Sequence[Part] | None = None
        if isinstance(logged.action, Search):
            parts = await self._search(state, logged, logged.action.query)
        elif isinstance(logged.action, Fetch):
            parts = await self._open(state, logged, logged.action.pages[0])
        if parts is None:
            parts = [self.part("feedback", reason=self.feedback(logged))]
        last = logged.turn == self._config.max_turns - 1
        after = [TextPart(f"\n{self.text('last_turn')}")] if last else []
        return [TextPart(f"{self.text('observation')}\n"), *parts, *after]

    async def _open(self, state: BaselineState, logged: LoggedTurn, number: int) -> Sequence[Part] | None:
        pages = self._services.store.document(state.sample.doc_id).num_pages
        if number > pages:
            logged.refuse(f"the document has {pages} pages")
            return None
        return await self._show(state, logged, [PageRef(state.sample.doc_id, number)])

    async def _search(self, state: BaselineState, logged: LoggedTurn, query: str) -> Sequence[Part]:
        hits = await self.search(
            logged,
            query,
            doc_id=state.sample.doc_id if self._config.scope is SearchScope.DOCUMENT else None,
            top_k=self._config.top_k,
            exclude=frozenset(state.shown),
        )
        if not hits:
            logged.effect = {"kind": "no_new_page", "hits": 0}
            return [self.part("no_page")]
        return await self._show(state, logged, [hit.ref for hit in hits])

    async def _show(
        self, state: BaselineState, logged: LoggedTurn, refs: Sequence[PageRef]
    ) -> Sequence[Part]:
        shown = await asyncio.to_thread(lambda: list(self.shown_pages(refs, logged.turn)))
        logged.image_tokens = sum(page.image_tokens for page in shown)
        logged.effect = {"kind": "pages", "pages": state.show(shown)}
        return [part for page in shown for part in page.parts]
