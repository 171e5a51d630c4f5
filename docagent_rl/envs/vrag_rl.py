"""The environment of VRAG-RL (arXiv 2505.22019): search a corpus of page images, zoom, answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.arguments import bad_argument
from docagent_rl.actions.base import Answer, Crop, Invalid, Search
from docagent_rl.actions.coordinates import CropError
from docagent_rl.actions.display import DisplayError
from docagent_rl.actions.vrag_rl import VragGrammar
from docagent_rl.data.record import Record
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    ImagePart,
    Message,
    Observation,
    Part,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
)
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import TurnLog, TurnRecord
from docagent_rl.envs.views import View, ViewKind, crop_view, page_view
from docagent_rl.envs.vrag_rl_config import SearchScope, VragConfig
from docagent_rl.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.retrieval import Hit
from docagent_rl.rewards.retrieval import ndcg, recall
from docagent_rl.rewards.vrag_rl import format_reward

VRAG_PROMPT = PromptSpec(
    required=frozenset({"user", "feedback", "no_new_page", "final_turn"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "turns", "crop", "frame", "pages", "reason"}),
)
TERMS = ("retrieval_ndcg", "outcome", "format", "total")


@dataclass(slots=True)
class _Episode:
    """The state of one episode."""

    sample: Record
    gold: frozenset[PageRef]
    references: tuple[str, ...]
    shown: list[PageRef] = field(default_factory=list)
    """Pages that searches showed, in order, each once: the list that the retrieval term reads."""
    views: list[View] = field(default_factory=list)
    """All images shown; a box refers to the last."""
    log: TurnLog = field(default_factory=TurnLog)
    settled: tuple[int, int] = (0, 0)
    """Lengths of `shown` and `views` before the last turn: what is left when its observation is dropped."""
    end: EndReason | None = None
    terms: RewardTerms = field(default_factory=RewardTerms)

    @property
    def searched(self) -> bool:
        return self.log.ran(Search) > 0


class VragEnv(DocEnv):
    """One episode of VRAG-RL.

    Observations are user messages: the images a search or a zoom led to and nothing else, or a text when the
    turn led to none. The reward comes with the last turn; its terms are `TERMS`.

    Args:
        config: what to play.
        services: documents, retriever, judge.
        prompt: parts as in `VRAG_PROMPT`; by default the package's for the variant.
        validate: play for validation, which may pad boxes differently.
    """

    def __init__(
        self,
        config: VragConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config = config
        self._services = services
        self._prompt = prompt or load_prompt(config.prompt, VRAG_PROMPT)
        self._grammar = make_grammar(config)
        self._reward = config.reward.rule()
        pad_val = config.crop.pad_val
        self._pad = pad_val if validate and pad_val is not None else config.crop.pad
        self._state: _Episode | None = None

    def reset(self, sample: Record) -> Observation:
        """Begin an episode (see `DocEnv.reset`)."""
        gold = checked_gold(sample, self._services.store, allow_empty=self._config.allow_empty_gold)
        self._state = _Episode(sample, gold, references(sample))
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return Observation(tuple(Message(role, (self._text(role.value),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        episode = self._running()
        parsed = self._grammar.parse(turn.text, turn.stop)
        record = TurnRecord(turn=len(episode.log.records) + 1, parsed=parsed)
        if isinstance(parsed.action, Answer):
            return await self._answer(episode, record, parsed.action)
        episode.settled = (len(episode.shown), len(episode.views))
        if record.turn >= self._config.assistant_turns:
            record.executed = False
            record.effect = {"kind": "not_executed"}
            episode.log.records.append(record)
            return _ended(record, EndReason.TURN_LIMIT, self._settle(EndReason.TURN_LIMIT, outcome=0.0))
        parts = await self._execute(episode, record)
        episode.log.records.append(record)
        if self._config.final_turn.notice and record.turn == self._config.assistant_turns - 1:
            parts = (*parts, self._text("final_turn"))
        return StepResult(Observation.user(*parts), info=record.to_dict())

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end (see `DocEnv.conclude`)."""
        episode = self._running()
        if episode.log.records:
            pages, views = episode.settled
            del episode.shown[pages:], episode.views[views:]
            episode.log.records[-1].dropped = True
        return self._settle(reason, outcome=0.0)

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name.

        Besides those of `TurnLog.metrics`: `reward/*` for every term; `finished` (ended with an answer),
        `context_full`, `searches`, `no_new_page`, `crops`, `pages_seen`, `retrieval_recall`;
        `invalid_rate_paper` also counts an answer before any search as invalid, as the paper's analysis does.
        `reward/outcome` is the validation score of either variant: with the gate it is 0 without a search.
        """
        episode = self._require()
        log = episode.log.metrics()
        answered = episode.end is EndReason.ANSWERED
        faults = log["invalid_actions"] + (answered and not episode.searched)
        effects = [record.effect.get("kind") for record in episode.log.records]
        return {
            **{f"reward/{name}": float(episode.terms.values.get(name, 0.0)) for name in TERMS},
            **log,
            "invalid_rate_paper": faults / log["turns"] if log["turns"] else 0.0,
            "finished": float(answered),
            "context_full": float(episode.end is EndReason.CONTEXT_FULL),
            "searches": float(episode.log.ran(Search)),
            "no_new_page": float(effects.count("no_new_page")),
            "crops": float(sum(view.kind is ViewKind.CROP for view in episode.views)),
            "pages_seen": float(len(episode.shown)),
            "retrieval_recall": recall(episode.shown, episode.gold),
        }

    async def _execute(self, episode: _Episode, record: TurnRecord) -> tuple[Part, ...]:
        action = record.parsed.action
        if isinstance(action, Search):
            return await self._search(episode, record, action)
        if isinstance(action, Crop):
            return self._crop(episode, record, action)
        return self._feedback(record)

    async def _search(self, episode: _Episode, record: TurnRecord, action: Search) -> tuple[Part, ...]:
        search = self._config.search
        started = time.perf_counter()
        hits = await self._services.retriever.search(
            action.query,
            doc_id=episode.sample.doc_id if search.scope is SearchScope.DOCUMENT else None,
            top_k=search.top_k,
            exclude=frozenset(episode.shown) if search.exclude_shown else (),
        )
        record.seconds["search"] = time.perf_counter() - started
        fresh = [(rank, hit) for rank, hit in enumerate(hits, start=1) if hit.ref not in episode.shown]
        fresh = fresh[: search.pages_per_search]
        if not fresh:
            record.effect = {"kind": "no_new_page", "hits": len(hits)}
            return (self._text("no_new_page"),)
        # the first look at a document reads its manifest
        views = await asyncio.to_thread(self._page_views, [hit for _, hit in fresh], record.turn)
        episode.shown += [hit.ref for _, hit in fresh]
        pages = [
            {**view.to_dict(), "rank": rank, "score": float(hit.score), "gold": hit.ref in episode.gold}
            for view, (rank, hit) in zip(views, fresh, strict=True)
        ]
        record.effect = {"kind": "pages", "hits": len(hits), "pages": pages}
        return _push(episode, record, views)

    def _page_views(self, hits: list[Hit], turn: int) -> list[View]:
        return [page_view(self._services.store.page(hit.ref), self._config.display, turn) for hit in hits]

    def _crop(self, episode: _Episode, record: TurnRecord, action: Crop) -> tuple[Part, ...]:
        if not episode.views:
            record.refused = bad_argument("no image was shown yet", action.block, action.argument)
            return self._feedback(record)
        coords = self._config.coords
        try:
            view = crop_view(
                episode.views[-1],
                action.boxes[0],
                self._config.display,
                record.turn,
                frame=coords.frame,
                rounding=coords.rounding,
                pad=self._pad,
            )
        except (CropError, DisplayError) as error:
            record.refused = bad_argument(str(error), action.block, action.argument)
            return self._feedback(record)
        record.effect = {"kind": "crop", **view.to_dict()}
        return _push(episode, record, [view])

    def _feedback(self, record: TurnRecord) -> tuple[Part, ...]:
        invalid = record.invalid
        if not isinstance(invalid, Invalid):
            raise TypeError(f"VRAG-RL has no action {type(record.parsed.action).__name__}")
        record.effect = {"kind": "feedback"}
        return (self._text("feedback", reason=invalid.detail),)

    async def _answer(self, episode: _Episode, record: TurnRecord, action: Answer) -> StepResult:
        fmt = format_reward(searched=episode.searched, answered=True)
        asked = bool(action.text) and self._reward.needs_outcome(fmt)
        outcome = 0.0
        if asked:
            started = time.perf_counter()
            outcome = await self._services.judge.judge(
                episode.sample.question, episode.references, action.text
            )
            record.seconds["judge"] = time.perf_counter() - started
        record.effect = {"kind": "answer", "judged": asked}
        episode.log.records.append(record)
        return _ended(record, EndReason.ANSWERED, self._settle(EndReason.ANSWERED, outcome=outcome))

    def _settle(self, reason: EndReason, *, outcome: float) -> RewardTerms:
        episode = self._running()
        fmt = format_reward(searched=episode.searched, answered=reason is EndReason.ANSWERED)
        retrieval = ndcg(episode.shown, episode.gold)
        total = self._reward.total(retrieval=retrieval, outcome=outcome, fmt=fmt)
        values = dict(zip(TERMS, (retrieval, outcome, fmt, total), strict=True))
        episode.end, episode.terms = reason, RewardTerms(values, reward=total)
        return episode.terms

    def _text(self, part: str, **variables: Any) -> TextPart:
        return TextPart(
            self._prompt.render(
                part,
                question=self._require().sample.question,
                turns=self._config.assistant_turns,
                crop=self._config.grammar.crop,
                frame=self._config.coords.frame.value,
                pages=self._config.search.pages_per_search,
                **variables,
            )
        )

    def _running(self) -> _Episode:
        episode = self._require()
        if episode.end is not None:
            raise RuntimeError(f"the episode has ended ({episode.end.value})")
        return episode

    def _require(self) -> _Episode:
        if self._state is None:
            raise RuntimeError("call reset() first")
        return self._state


def make_grammar(config: VragConfig) -> VragGrammar:
    """The grammar that a configuration describes."""
    return VragGrammar(region_alias=config.grammar.region_alias, crop=config.grammar.crop)


def _push(episode: _Episode, record: TurnRecord, views: list[View]) -> tuple[Part, ...]:
    episode.views += views
    record.image_tokens = sum(view.tokens for view in views)
    return tuple(ImagePart(view.image) for view in views)


def _ended(record: TurnRecord, reason: EndReason, terms: RewardTerms) -> StepResult:
    return StepResult(None, end=reason, terms=terms, info=record.to_dict())
