"""ReAct (arXiv 2210.03629) with the tools of document agents: search, open a page, answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from docagent_rl.actions.base import Answer, Fetch, Invalid, Search
from docagent_rl.actions.grammar import bad_argument
from docagent_rl.base.prompts import PromptSpec
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    EndReason,
    Message,
    Observation,
    Part,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
    UnknownActionError,
)
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.config import ReactConfig
from docagent_rl.lab.eval.baselines.episode import BaselineEnv, BaselineEpisode
from docagent_rl.lab.eval.baselines.grammar import ReactGrammar

_PARTS = "system user page_label page_text no_text no_page feedback last_turn observation"
_VARIABLES = "question num_pages turns top_k page doc_id text several reason"


class ReactEnv(BaselineEnv[ReactConfig]):
    """A loop of thoughts, actions and observations.

    A search shows its best pages that were not shown yet, an opened page is one of the question's document.
    A turn without an action that can be carried out gets a message and counts. The last turn can only answer.
    """

    prompt_spec = PromptSpec(frozenset(_PARTS.split()), variables=frozenset(_VARIABLES.split()))
    default_prompt = "baseline_react"

    def show_prompt(self, episode: BaselineEpisode) -> Observation:
        """Show the tools and the question."""
        roles = (Role.SYSTEM, Role.USER)
        return Observation(tuple(Message(role, (TextPart(self.say(role.value)),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        episode, last = self.running, self._config.max_turns
        parsed = ReactGrammar().parse(turn.text, turn.stop)
        logged = LoggedTurn(turn=len(episode.log.turns) + 1, parsed=parsed)
        if isinstance(parsed.action, Answer):
            return await self.answer(logged, parsed.action)
        if logged.turn >= last:
            logged.executed, logged.effect = False, {"kind": "not_executed"}
            return await self.end(logged, EndReason.TURN_LIMIT)
        episode.settled = len(episode.shown)
        parts = await self._execute(episode, logged)
        episode.log.turns.append(logged)
        if logged.turn == last - 1:
            parts = (*parts, TextPart(f"\n{self.say('last_turn')}"))
        head = TextPart(f"{self.say('observation')}\n")
        return StepResult(Observation.user(head, *parts), info=logged.to_dict())

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """See `DocEnv.conclude`."""
        episode = self.running
        if episode.log.turns:
            del episode.shown[episode.settled :]
            episode.log.turns[-1].dropped = True
        return await super().conclude(reason)

    def say(self, part: str, **variables: Any) -> str:
        """See `BaselineEnv.say`."""
        config, several = self._config, self._config.scope is SearchScope.CORPUS
        return super().say(part, turns=config.max_turns, top_k=config.top_k, several=several, **variables)

    async def _execute(self, episode: BaselineEpisode, logged: LoggedTurn) -> tuple[Part, ...]:
        match logged.parsed.action:
            case Search(query=query):
                return await self._search(episode, logged, query)
            case Fetch(pages=(number,)) as action:
                pages = self._services.store.document(episode.sample.doc_id).num_pages
                if number > pages:
                    detail = f"the document has {pages} pages"
                    logged.refused = bad_argument(detail, action.block, action.argument)
                    return self._feedback(logged)
                return await self._show(episode, logged, [PageRef(episode.sample.doc_id, number)])
            case Invalid():
                return self._feedback(logged)
            case action:
                raise UnknownActionError("ReAct", action)

    async def _search(self, episode: BaselineEpisode, logged: LoggedTurn, query: str) -> tuple[Part, ...]:
        began = time.perf_counter()
        hits = await self.search(episode, query)
        logged.seconds["search"] = time.perf_counter() - began
        if not hits:
            logged.effect = {"kind": "no_new_page", "hits": 0}
            return (TextPart(self.say("no_page")),)
        return await self._show(episode, logged, [hit.ref for hit in hits])

    async def _show(
        self, episode: BaselineEpisode, logged: LoggedTurn, refs: Sequence[PageRef]
    ) -> tuple[Part, ...]:
        shown = await asyncio.to_thread(lambda: list(self.shown_pages(refs, turn=logged.turn)))
        logged.image_tokens = sum(page.image_tokens for page in shown)
        logged.effect = {"kind": "pages", "pages": episode.show(shown)}
        return tuple(part for page in shown for part in page.parts)

    def _feedback(self, logged: LoggedTurn) -> tuple[Part, ...]:
        logged.effect = {"kind": "feedback"}
        reason = logged.invalid.detail if logged.invalid else ""
        return (TextPart(self.say("feedback", reason=reason)),)
