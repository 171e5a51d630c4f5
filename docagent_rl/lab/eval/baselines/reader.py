"""One turn: a question, what stands beside it, and an answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from docagent_rl.actions.base import Answer
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.base.untrusted import without_tokens
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    Message,
    Observation,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
)
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.config import Material, ReaderConfig
from docagent_rl.lab.eval.baselines.episode import BaselineEpisode, answered, ended, numbers, settle
from docagent_rl.lab.eval.baselines.grammar import ReaderGrammar
from docagent_rl.lab.eval.baselines.pages import Shown, ShownPage, fitting, show_page
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit

READER_PROMPT = PromptSpec(
    required=frozenset({"system", "user", "page_label", "page_text", "no_text"}),
    variables=frozenset(
        {"question", "material", "shown", "left_out", "num_pages", "page", "doc_id", "text", "several"}
    ),
)
DEFAULT_PROMPT = "baseline_reader"


class ReaderEnv(DocEnv[BaselineEpisode]):
    """A question with nothing, the whole document or the pages of one search beside it.

    Pages are added in order while they fit `EnvServices.prompt_tokens`; how many were left out, for that or
    by `max_pages`, is told to the model and counted (`pages_left_out`). The reward is the judge's verdict.

    Args:
        config: what is shown.
        services: documents, retriever, judge, and the tokens that a prompt may have.
        prompt: parts as in `READER_PROMPT`.
        validate: nothing depends on it.
    """

    def __init__(
        self,
        config: ReaderConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config, self._services = config, services
        self._prompt = prompt or load_prompt(DEFAULT_PROMPT, READER_PROMPT)
        self._grammar = ReaderGrammar()
        self._hits: list[Hit] = []

    def open_episode(self, sample: Record) -> BaselineEpisode:
        """See `DocEnv.open_episode`."""
        return BaselineEpisode.of(sample, self._services.store)

    async def prepare(self, episode: BaselineEpisode) -> None:
        """Search for the question, where the material is what a search finds."""
        if self._config.material is not Material.SEARCH:
            return
        inside = self._config.scope is SearchScope.DOCUMENT
        self._hits = await self._services.retriever.search(
            episode.sample.question,
            doc_id=episode.sample.doc_id if inside else None,
            top_k=self._config.top_k,
        )

    def opening(self, sample: Record) -> Observation:
        """See `DocEnv.opening`. What a search would find is made to fit, and may be nothing."""
        return self.begin(self.open_episode(sample))

    def show_prompt(self, episode: BaselineEpisode) -> Observation:
        """The question and its material."""
        episode.material = self._material(episode)
        episode.show([page.ref for page in episode.material.pages])
        return Observation(
            (
                Message(Role.SYSTEM, (TextPart(self._say("system")),)),
                Message(Role.USER, (*episode.material.parts, TextPart(self._user(episode.material)))),
            )
        )

    async def step(self, turn: AssistantTurn) -> StepResult:
        """The answer; a turn without one ends the episode too."""
        episode = self.running
        logged = LoggedTurn(turn=1, parsed=self._grammar.parse(turn.text, turn.stop))
        action = logged.parsed.action
        if isinstance(action, Answer):
            return await answered(episode, logged, action, self._services)
        logged.effect = {"kind": "invalid"}
        episode.log.turns.append(logged)
        return ended(episode, logged, EndReason.INVALID)

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """See `DocEnv.conclude`."""
        return settle(self.running, reason)

    def metrics(self) -> dict[str, float]:
        """See `numbers`."""
        return numbers(self.episode)

    def adapted(self) -> str | None:
        """Pages that did not fit."""
        return "pages left out" if self.episode.material.crowded_out else None

    def _material(self, episode: BaselineEpisode) -> Shown:
        refs = every = self._refs(episode)
        if self._config.material is Material.DOCUMENT and self._config.max_pages is not None:
            refs = every[: self._config.max_pages]
        limit = self._services.prompt_tokens
        room = None
        if limit is not None:
            # the longest that the note on pages left out can be
            text = without_tokens(self._say("system") + self._user(Shown(beyond=len(every))))
            room = limit - self._services.count_tokens(text) - self._config.spare_tokens
        shown = fitting(self._pages(refs), len(refs), room)
        shown.beyond = len(every) - len(refs)
        return shown

    def _refs(self, episode: BaselineEpisode) -> list[PageRef]:
        match self._config.material:
            case Material.NONE:
                return []
            case Material.SEARCH:
                return [hit.ref for hit in self._hits]
            case Material.DOCUMENT:
                doc_id = episode.sample.doc_id
                last = self._services.store.document(doc_id).num_pages
                return [PageRef(doc_id, number) for number in range(1, last + 1)]

    def _pages(self, refs: list[PageRef]) -> Iterator[ShownPage]:
        for rank, ref in enumerate(refs, start=1):
            yield show_page(ref, self._config, self._services, self._say, turn=0, rank=rank)

    def _user(self, shown: Shown) -> str:
        return self._say("user", shown=len(shown.pages), left_out=shown.left_out)

    def _say(self, part: str, **variables: Any) -> str:
        sample = self.episode.sample
        return self._prompt.render(
            part,
            question=sample.question,
            material=self._config.material.value,
            several=self._config.scope is SearchScope.CORPUS and self._config.material is Material.SEARCH,
            num_pages=self._services.store.document(sample.doc_id).num_pages,
            **variables,
        )
