"""The environment that baselines share: a question, pages shown in order, and the score of an answer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar

from docagent_rl.actions.base import Answer, Fetch, Search
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.base.untrusted import without_tokens
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    DocEnv,
    EndReason,
    EpisodeState,
    ImagePart,
    Part,
    RewardTerms,
    StepResult,
    TextPart,
    measured,
)
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.sections import SearchScope
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.token_budget import cut_to_tokens
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import page_view
from docagent_rl.lab.eval.baselines.config import PageConfig, PageForm
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit

_IMAGE_FRAME = 2
"""Tokens that a template puts around an image."""
C = TypeVar("C", bound=PageConfig)


@dataclass(frozen=True, slots=True)
class ShownPage:
    """A page with the line above it.

    Args:
        ref: the page.
        parts: what is shown.
        tokens: of the parts; texts are counted by the services' counter.
        image_tokens: those of its image.
        described: for the record, JSON-ready.
    """

    ref: PageRef
    parts: tuple[Part, ...]
    tokens: int
    image_tokens: int
    described: dict[str, Any]


@dataclass(slots=True)
class Shown:
    """Pages in the order in which a prompt shows them.

    Args:
        pages: them.
        crowded_out: pages that would have come next and did not fit.
        beyond: pages behind those that the configuration lets a document have.
    """

    pages: list[ShownPage] = field(default_factory=list)
    crowded_out: int = 0
    beyond: int = 0

    @property
    def left_out(self) -> int:
        """Pages that are not shown, for either reason."""
        return self.crowded_out + self.beyond


@dataclass(slots=True)
class BaselineEpisode(EpisodeState):
    """The state of an episode.

    Args:
        gold: pages of the evidence, possibly none.
        references: right answers.
        shown: pages that were shown, in order, each once.
        material: what the prompt shows.
        settled: length of `shown` before the last turn.
        outcome: the judge's verdict on the answer.
    """

    gold: frozenset[PageRef]
    references: tuple[str, ...]
    shown: list[PageRef] = field(default_factory=list)
    material: Shown = field(default_factory=Shown)
    settled: int = 0
    outcome: float = 0.0

    def show(self, pages: Sequence[ShownPage]) -> list[dict[str, Any]]:
        """Note pages as shown, and return their description for the record."""
        self.shown += [ref for ref in dict.fromkeys(page.ref for page in pages) if ref not in self.shown]
        return [{**page.described, "gold": page.ref in self.gold} for page in pages]


class BaselineEnv(DocEnv[BaselineEpisode], Generic[C]):
    """An environment whose reward is the judge's verdict on the answer.

    Args:
        config: what is shown.
        services: documents, retriever, judge, and the tokens that a prompt may have.
        prompt: parts as in `prompt_spec`.
        validate: nothing depends on it.
    """

    prompt_spec: ClassVar[PromptSpec]
    default_prompt: ClassVar[str]

    def __init__(
        self,
        config: C,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config, self._services = config, services
        self._prompt = prompt or load_prompt(self.default_prompt, self.prompt_spec)

    def open_episode(self, sample: Record) -> BaselineEpisode:
        """See `DocEnv.open_episode`."""
        gold = checked_gold(sample, self._services.store, allow_empty=True)
        return BaselineEpisode(sample, gold, references(sample))

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """See `DocEnv.conclude`."""
        episode = self.running
        episode.end = reason
        return RewardTerms({"outcome": episode.outcome}, reward=episode.outcome)

    def metrics(self) -> dict[str, float]:
        """See `DocEnv.metrics`."""
        episode = self.episode
        recall = len(episode.gold.intersection(episode.shown)) / len(episode.gold) if episode.gold else None
        found: dict[str, Any] = {
            "reward/outcome": episode.outcome,
            **episode.log.metrics(),
            "finished": float(episode.end is EndReason.ANSWERED),
            "context_full": float(episode.end is EndReason.CONTEXT_FULL),
            "searches": float(episode.log.ran(Search)),
            "fetches": float(episode.log.ran(Fetch)),
            "pages_seen": float(len(episode.shown)),
            "pages_left_out": float(episode.material.left_out),
            **measured({"retrieval_recall": recall}),
        }
        found["image_tokens"] += sum(page.image_tokens for page in episode.material.pages)
        return found

    async def search(self, episode: BaselineEpisode, query: str) -> list[Hit]:
        """Search the question's document, or the corpus, for pages that were not shown yet."""
        inside = self._config.scope is SearchScope.DOCUMENT
        return await self._services.retriever.search(
            query,
            doc_id=episode.sample.doc_id if inside else None,
            top_k=self._config.top_k,
            exclude=frozenset(episode.shown),
        )

    async def answer(self, logged: LoggedTurn, action: Answer) -> StepResult:
        """End the episode with an answer, which the judge scores.

        Raises:
            InfrastructureError: the judge failed.
        """
        episode = self.running
        if action.text:
            began = time.perf_counter()
            question = episode.sample.question
            episode.outcome = await self._services.judge.judge(question, episode.references, action.text)
            logged.seconds["judge"] = time.perf_counter() - began
        # texts in the prompt do not say of which page they are
        pages = episode.show(episode.material.pages)
        logged.effect = {"kind": "answer", "judged": bool(action.text), **({"pages": pages} if pages else {})}
        return await self.end(logged, EndReason.ANSWERED)

    async def end(self, logged: LoggedTurn, reason: EndReason) -> StepResult:
        """End the episode with a turn."""
        episode = self.running
        episode.log.turns.append(logged)
        episode.end = reason
        terms = RewardTerms({"outcome": episode.outcome}, reward=episode.outcome)
        return StepResult(None, end=reason, terms=terms, info=logged.to_dict())

    def say(self, part: str, **variables: Any) -> str:
        """Render a part of the prompt file."""
        sample = self.episode.sample
        pages = self._services.store.document(sample.doc_id).num_pages
        return self._prompt.render(part, question=sample.question, num_pages=pages, **variables)

    def shown_pages(self, refs: Sequence[PageRef], *, turn: int) -> Iterator[ShownPage]:
        """Yield pages as image or text, each with a line that names it; reads files.

        Raises:
            UserError: there is no such page, or it cannot be shown.
        """
        for rank, ref in enumerate(refs, start=1):
            yield self._shown_page(ref, rank, turn)

    def _shown_page(self, ref: PageRef, rank: int, turn: int) -> ShownPage:
        page, count = self._services.store.page(ref), self._services.count_tokens
        label = f"{self.say('page_label', page=ref.page, doc_id=ref.doc_id)}\n"
        found: dict[str, Any] = {"page": str(ref), "rank": rank}
        if self._config.form is PageForm.IMAGE:
            view = page_view(page, self._config.display, turn)
            tokens = count(label) + view.tokens + _IMAGE_FRAME
            parts = (TextPart(label), ImagePart(view.image))
            return ShownPage(ref, parts, tokens, view.tokens, {**view.to_dict(), **found})
        # spellings of special tokens are broken anyway, and take more tokens then: counted as they will be
        text = cut_to_tokens(without_tokens(page.text().strip()), self._config.page_tokens, count)
        shown = f"{label}{self.say('page_text', text=text or self.say('no_text'))}\n"
        return ShownPage(ref, (TextPart(shown),), count(shown), 0, found)
