"""ReAct (arXiv 2210.03629) with the tools of document agents: search, open a page, answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

from docagent_rl.actions.base import Answer, Fetch, Invalid, Search
from docagent_rl.actions.grammar import bad_argument
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
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
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.config import ReactConfig
from docagent_rl.lab.eval.baselines.episode import BaselineEpisode, answered, ended, numbers, settle
from docagent_rl.lab.eval.baselines.grammar import ReactGrammar
from docagent_rl.lab.eval.baselines.pages import ShownPage, show_page
from docagent_rl.records.record import Record

REACT_PROMPT = PromptSpec(
    required=frozenset(
        {
            "system",
            "user",
            "page_label",
            "page_text",
            "no_text",
            "no_page",
            "feedback",
            "last_turn",
            "observation",
        }
    ),
    variables=frozenset(
        {"question", "num_pages", "turns", "top_k", "page", "doc_id", "text", "several", "reason"}
    ),
)
DEFAULT_PROMPT = "baseline_react"


class ReactEnv(DocEnv[BaselineEpisode]):
    """A loop of thoughts, actions and observations; the reward is the judge's verdict on the answer.

    A search shows its best pages that were not shown yet, an opened page is one of the question's document.
    A turn without an action that can be carried out gets a message and counts. The last turn can only answer.

    Args:
        config: what is shown.
        services: documents, retriever, judge.
        prompt: parts as in `REACT_PROMPT`.
        validate: nothing depends on it.
    """

    def __init__(
        self,
        config: ReactConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config, self._services = config, services
        self._prompt = prompt or load_prompt(DEFAULT_PROMPT, REACT_PROMPT)
        self._grammar = ReactGrammar()

    def open_episode(self, sample: Record) -> BaselineEpisode:
        """See `DocEnv.open_episode`."""
        return BaselineEpisode.of(sample, self._services.store)

    def show_prompt(self, episode: BaselineEpisode) -> Observation:
        """The tools and the question."""
        roles = (Role.SYSTEM, Role.USER)
        return Observation(tuple(Message(role, (TextPart(self._say(role.value)),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        episode = self.running
        parsed = self._grammar.parse(turn.text, turn.stop)
        logged = LoggedTurn(turn=len(episode.log.turns) + 1, parsed=parsed)
        if isinstance(parsed.action, Answer):
            return await answered(episode, logged, parsed.action, self._services)
        if logged.turn >= self._config.max_turns:
            logged.executed, logged.effect = False, {"kind": "not_executed"}
            episode.log.turns.append(logged)
            return ended(episode, logged, EndReason.TURN_LIMIT)
        episode.settled = len(episode.shown)
        parts = await self._execute(episode, logged)
        episode.log.turns.append(logged)
        if logged.turn == self._config.max_turns - 1:
            parts = (*parts, TextPart(f"\n{self._say('last_turn')}"))
        head = TextPart(f"{self._say('observation')}\n")
        return StepResult(Observation.user(head, *parts), info=logged.to_dict())

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """See `DocEnv.conclude`."""
        episode = self.running
        if episode.log.turns:
            del episode.shown[episode.settled :]
            episode.log.turns[-1].dropped = True
        return settle(episode, reason)

    def metrics(self) -> dict[str, float]:
        """See `numbers`."""
        return numbers(self.episode)

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
        hits = await self._services.retriever.search(
            query,
            doc_id=episode.sample.doc_id if self._config.scope is SearchScope.DOCUMENT else None,
            top_k=self._config.top_k,
            exclude=frozenset(episode.shown),
        )
        logged.seconds["search"] = time.perf_counter() - began
        if not hits:
            logged.effect = {"kind": "no_new_page", "hits": 0}
            return (TextPart(self._say("no_page")),)
        return await self._show(episode, logged, [hit.ref for hit in hits])

    async def _show(
        self, episode: BaselineEpisode, logged: LoggedTurn, refs: Sequence[PageRef]
    ) -> tuple[Part, ...]:
        shown = await asyncio.to_thread(self._pages, refs, logged.turn)
        logged.image_tokens = sum(page.image_tokens for page in shown)
        described = [{**page.described, "gold": page.ref in episode.gold} for page in shown]
        logged.effect = {"kind": "pages", "pages": described}
        episode.show(refs)
        return tuple(part for page in shown for part in page.parts)

    def _pages(self, refs: Sequence[PageRef], turn: int) -> list[ShownPage]:
        return [
            show_page(ref, self._config, self._services, self._say, turn=turn, rank=rank)
            for rank, ref in enumerate(refs, start=1)
        ]

    def _feedback(self, logged: LoggedTurn) -> tuple[Part, ...]:
        logged.effect = {"kind": "feedback"}
        reason = logged.invalid.detail if logged.invalid else ""
        return (TextPart(self._say("feedback", reason=reason)),)

    def _say(self, part: str, **variables: Any) -> str:
        sample, config = self.episode.sample, self._config
        return self._prompt.render(
            part,
            question=sample.question,
            num_pages=self._services.store.document(sample.doc_id).num_pages,
            turns=config.max_turns,
            top_k=config.top_k,
            several=config.scope is SearchScope.CORPUS,
            **variables,
        )
