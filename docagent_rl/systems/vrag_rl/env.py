"""The environment of VRAG-RL (arXiv 2505.22019): search a corpus of page images, zoom, answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.arguments import bad_argument
from docagent_rl.actions.base import Answer, Crop, Invalid, Search
from docagent_rl.actions.coordinates import CropError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayError
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    EpisodeState,
    ImagePart,
    Message,
    Observation,
    Part,
    RewardTerms,
    Role,
    StepResult,
    TextPart,
    UnknownActionError,
)
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.measures import measured
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import View, ViewKind, crop_view, page_view
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit
from docagent_rl.rewards.retrieval import ndcg, recall
from docagent_rl.systems.vrag_rl.actions import VragGrammar
from docagent_rl.systems.vrag_rl.config import SearchScope, VragConfig
from docagent_rl.systems.vrag_rl.rewards import format_reward

VRAG_PROMPT = PromptSpec(
    required=frozenset({"user", "feedback", "no_new_page", "final_turn"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "turns", "crop", "frame", "pages", "reason"}),
    shown=frozenset({"question"}),
)
TERMS = ("retrieval_ndcg", "outcome", "format", "total")


@dataclass(slots=True)
class _Episode(EpisodeState):
    """The state of one episode."""

    gold: frozenset[PageRef]
    references: tuple[str, ...]
    shown: list[PageRef] = field(default_factory=list)
    """Pages that searches showed, in order, each once: the list that the retrieval term reads."""
    views: list[View] = field(default_factory=list)
    """All images shown; a box refers to the last."""
    settled: tuple[int, int] = (0, 0)
    """Lengths of `shown` and `views` before the last turn: what is left when its observation is dropped."""
    terms: RewardTerms = field(default_factory=RewardTerms)

    @property
    def searched(self) -> bool:
        return self.log.ran(Search) > 0


class VragEnv(DocEnv[_Episode]):
    """One episode of VRAG-RL.

    Observations are user messages: the images a search or a zoom led to and nothing else, or a text when the
    turn led to none. The reward comes with the last turn; its terms are `TERMS`.

    Args:
        config: what to play.
        services: documents, retriever, judge.
        prompt: parts as in `VRAG_PROMPT`; by default the package's for the variant.
        validate: play for validation, which may pad boxes differently and plays questions without gold
            pages.
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
        # a benchmark may name no evidence; its answers are judged all the same
        self._without_gold = config.allow_empty_gold or validate
        pad_val = config.crop.pad_val
        self._pad = pad_val if validate and pad_val is not None else config.crop.pad

    def open_episode(self, sample: Record) -> _Episode:
        """The state before the first turn (see `DocEnv.open_episode`)."""
        gold = checked_gold(sample, self._services.store, allow_empty=self._without_gold)
        return _Episode(sample, gold, references(sample))

    def show_prompt(self, episode: _Episode) -> Observation:
        """The prompt, without an image (see `DocEnv.show_prompt`)."""
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return Observation(tuple(Message(role, (self._text(role.value),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        episode = self.running
        parsed = self._grammar.parse(turn.text, turn.stop)
        logged = LoggedTurn(turn=len(episode.log.turns) + 1, parsed=parsed)
        if isinstance(parsed.action, Answer):
            return await self._answer(episode, logged, parsed.action)
        episode.settled = (len(episode.shown), len(episode.views))
        if logged.turn >= self._config.assistant_turns:
            logged.executed = False
            logged.effect = {"kind": "not_executed"}
            episode.log.turns.append(logged)
            return _ended(logged, EndReason.TURN_LIMIT, self._settle(EndReason.TURN_LIMIT, outcome=0.0))
        parts = await self._execute(episode, logged)
        episode.log.turns.append(logged)
        if self._config.final_turn.notice and logged.turn == self._config.assistant_turns - 1:
            parts = (*parts, self._text("final_turn"))
        return StepResult(Observation.user(*parts), info=logged.to_dict())

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end (see `DocEnv.conclude`)."""
        episode = self.running
        if episode.log.turns:
            pages, views = episode.settled
            del episode.shown[pages:], episode.views[views:]
            episode.log.turns[-1].dropped = True
        return self._settle(reason, outcome=0.0)

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name.

        Besides those of `TurnLog.metrics`: `reward/*` for every term; `finished` (ended with an answer),
        `context_full`, `searches`, `no_new_page`, `crops`, `pages_seen`; of questions
        with gold pages `retrieval_recall` and `retrieval_ndcg`, which is the term where it means something;
        `invalid_rate_paper` also counts an answer before any search as invalid, as the paper's analysis does.
        `reward/outcome` is the validation score of either variant: with the gate it is 0 without a search.
        """
        episode = self.episode
        log = episode.log.metrics()
        answered = episode.end is EndReason.ANSWERED
        faults = log["invalid_actions"] + (answered and not episode.searched)
        effects = [logged.effect.get("kind") for logged in episode.log.turns]
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
            **measured(
                {
                    "retrieval_recall": recall(episode.shown, episode.gold),
                    "retrieval_ndcg": ndcg(episode.shown, episode.gold) if episode.gold else None,
                }
            ),
        }

    async def _execute(self, episode: _Episode, logged: LoggedTurn) -> tuple[Part, ...]:
        action = logged.parsed.action
        if isinstance(action, Search):
            return await self._search(episode, logged, action)
        if isinstance(action, Crop):
            return self._crop(episode, logged, action)
        return self._feedback(logged)

    async def _search(self, episode: _Episode, logged: LoggedTurn, action: Search) -> tuple[Part, ...]:
        search = self._config.search
        started = time.perf_counter()
        hits = await self._services.retriever.search(
            action.query,
            doc_id=episode.sample.doc_id if search.scope is SearchScope.DOCUMENT else None,
            top_k=search.top_k,
            exclude=frozenset(episode.shown) if search.exclude_shown else (),
        )
        logged.seconds["search"] = time.perf_counter() - started
        fresh = [(rank, hit) for rank, hit in enumerate(hits, start=1) if hit.ref not in episode.shown]
        fresh = fresh[: search.pages_per_search]
        if not fresh:
            logged.effect = {"kind": "no_new_page", "hits": len(hits)}
            return (self._text("no_new_page"),)
        # the first look at a document reads its manifest
        views = await asyncio.to_thread(self._page_views, [hit for _, hit in fresh], logged.turn)
        episode.shown += [hit.ref for _, hit in fresh]
        pages = [
            {**view.to_dict(), "rank": rank, "score": float(hit.score), "gold": hit.ref in episode.gold}
            for view, (rank, hit) in zip(views, fresh, strict=True)
        ]
        logged.effect = {"kind": "pages", "hits": len(hits), "pages": pages}
        return _push(episode, logged, views)

    def _page_views(self, hits: list[Hit], turn: int) -> list[View]:
        return [page_view(self._services.store.page(hit.ref), self._config.display, turn) for hit in hits]

    def _crop(self, episode: _Episode, logged: LoggedTurn, action: Crop) -> tuple[Part, ...]:
        if not episode.views:
            logged.refused = bad_argument("no image was shown yet", action.block, action.argument)
            return self._feedback(logged)
        coords = self._config.coords
        try:
            view = crop_view(
                episode.views[-1],
                action.boxes[0],
                self._config.display,
                logged.turn,
                frame=coords.frame,
                rounding=coords.rounding,
                pad=self._pad,
            )
        except (CropError, DisplayError) as error:
            logged.refused = bad_argument(str(error), action.block, action.argument)
            return self._feedback(logged)
        logged.effect = {"kind": "crop", **view.to_dict()}
        return _push(episode, logged, [view])

    def _feedback(self, logged: LoggedTurn) -> tuple[Part, ...]:
        invalid = logged.invalid
        if not isinstance(invalid, Invalid):
            raise UnknownActionError("VRAG-RL", logged.parsed.action)
        logged.effect = {"kind": "feedback"}
        return (self._text("feedback", reason=invalid.detail),)

    async def _answer(self, episode: _Episode, logged: LoggedTurn, action: Answer) -> StepResult:
        fmt = format_reward(searched=episode.searched, answered=True)
        asked = bool(action.text) and self._reward.needs_outcome(fmt)
        outcome = 0.0
        if asked:
            started = time.perf_counter()
            outcome = await self._services.judge.judge(
                episode.sample.question, episode.references, action.text
            )
            logged.seconds["judge"] = time.perf_counter() - started
        logged.effect = {"kind": "answer", "judged": asked}
        episode.log.turns.append(logged)
        return _ended(logged, EndReason.ANSWERED, self._settle(EndReason.ANSWERED, outcome=outcome))

    def _settle(self, reason: EndReason, *, outcome: float) -> RewardTerms:
        episode = self.running
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
                question=self.episode.sample.question,
                turns=self._config.assistant_turns,
                crop=self._config.grammar.crop,
                frame=self._config.coords.frame.value,
                pages=self._config.search.pages_per_search,
                **variables,
            )
        )


def make_grammar(config: VragConfig) -> VragGrammar:
    """The grammar that a configuration describes."""
    return VragGrammar(region_alias=config.grammar.region_alias, crop=config.grammar.crop)


def _push(episode: _Episode, logged: LoggedTurn, views: list[View]) -> tuple[Part, ...]:
    episode.views += views
    logged.image_tokens = sum(view.tokens for view in views)
    return tuple(ImagePart(view.image) for view in views)


def _ended(logged: LoggedTurn, reason: EndReason, terms: RewardTerms) -> StepResult:
    return StepResult(None, end=reason, terms=terms, info=logged.to_dict())
