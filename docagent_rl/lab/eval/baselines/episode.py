"""What the environments of baselines share: the question, the score, the numbers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.base import Answer, Fetch, Search
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.base import EndReason, EpisodeState, RewardTerms, StepResult, measured
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.lab.eval.baselines.pages import Shown, recall_of
from docagent_rl.records.record import Record


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

    @classmethod
    def of(cls, sample: Record, store: DocumentStore) -> BaselineEpisode:
        """The state before the first turn.

        Raises:
            UserError: the document is missing, or the question has no reference answer.
        """
        return cls(sample, checked_gold(sample, store, allow_empty=True), references(sample))

    def pages_of_prompt(self) -> dict[str, Any]:
        """What the prompt showed, for the record: texts do not say of which page they are."""
        found = [{**page.described, "gold": page.ref in self.gold} for page in self.material.pages]
        return {"pages": found} if found else {}

    def show(self, pages: Sequence[PageRef]) -> None:
        """Note pages as shown."""
        self.shown += [page for page in dict.fromkeys(pages) if page not in self.shown]


async def answered(
    episode: BaselineEpisode, logged: LoggedTurn, action: Answer, services: EnvServices
) -> StepResult:
    """End an episode with an answer, which the judge scores.

    Raises:
        InfrastructureError: the judge failed.
    """
    if action.text:
        began = time.perf_counter()
        question = episode.sample.question
        episode.outcome = await services.judge.judge(question, episode.references, action.text)
        logged.seconds["judge"] = time.perf_counter() - began
    logged.effect = {"kind": "answer", "judged": bool(action.text), **episode.pages_of_prompt()}
    episode.log.turns.append(logged)
    return ended(episode, logged, EndReason.ANSWERED)


def ended(episode: BaselineEpisode, logged: LoggedTurn, reason: EndReason) -> StepResult:
    """End an episode."""
    return StepResult(None, end=reason, terms=settle(episode, reason), info=logged.to_dict())


def settle(episode: BaselineEpisode, reason: EndReason) -> RewardTerms:
    """The reward of an episode: the outcome."""
    episode.end = reason
    return RewardTerms({"outcome": episode.outcome}, reward=episode.outcome)


def numbers(episode: BaselineEpisode) -> dict[str, float]:
    """Numbers of an episode by name (see `DocEnv.metrics`)."""
    found: dict[str, Any] = {
        "reward/outcome": episode.outcome,
        **episode.log.metrics(),
        "finished": float(episode.end is EndReason.ANSWERED),
        "context_full": float(episode.end is EndReason.CONTEXT_FULL),
        "searches": float(episode.log.ran(Search)),
        "fetches": float(episode.log.ran(Fetch)),
        "pages_seen": float(len(episode.shown)),
        "pages_left_out": float(episode.material.left_out),
        **measured({"retrieval_recall": recall_of(episode.shown, episode.gold)}),
    }
    found["image_tokens"] += episode.material.image_tokens
    return found
