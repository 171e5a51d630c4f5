"""The environment of UniDoc-RL (arXiv 2604.14967): search, select a page, magnify regions of it, answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from docagent_rl.actions.arguments import bad_argument
from docagent_rl.actions.base import Answer, Crop, Invalid, Search, Select
from docagent_rl.actions.coordinates import CropError
from docagent_rl.actions.display import DisplayError
from docagent_rl.actions.unidoc_rl import UniDocGrammar
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
from docagent_rl.envs.regions import gold_regions
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import TurnRecord
from docagent_rl.envs.unidoc_rl_config import UniDocConfig
from docagent_rl.envs.unidoc_rl_episode import Episode
from docagent_rl.envs.views import View, page_view
from docagent_rl.envs.vrag_rl_config import SearchScope
from docagent_rl.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.retrieval import Hit
from docagent_rl.rewards.search_rounds import SearchRound
from docagent_rl.rewards.unidoc_rl import Conduct, format_reward
from docagent_rl.systems import System

UNIDOC_PROMPT = PromptSpec(
    required=frozenset({"user", "feedback", "candidates", "label", "page", "crop", "no_new_page"}),
    optional=frozenset({"system"}),
    variables=frozenset(
        {
            "question", "turns", "select", "crop", "candidates", "boxes", "frame",
            "index", "reason", "about_boxes",
        }
    ),
)  # fmt: skip


class UniDocEnv(DocEnv):
    """One episode of UniDoc-RL.

    A search shows up to three candidates, labelled by their index from 0; a selection shows one of them
    again; a box action shows regions of the selected page, cut from its raw raster and stacked. A box refers
    to the image shown last, a page or a stitched one. All observations are user messages that begin with a
    text.

    The reward comes with the last turn; its terms are `rewards.unidoc_rl.TERMS`. A turn whose observation was
    dropped, because it did not fit, has led to nothing: its candidates, selection and boxes do not count.

    Args:
        config: what to play.
        services: documents, retriever, judge.
        prompt: parts as in `UNIDOC_PROMPT`; by default the package's.
        validate: play for validation, which judges every answer and may pad boxes differently.
    """

    def __init__(
        self,
        config: UniDocConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config = config
        self._services = services
        self._prompt = prompt or load_prompt(config.prompt, UNIDOC_PROMPT)
        self._grammar = make_grammar(config)
        self._reward = config.rule()
        self._cutting = config.cutting(validate=validate)
        self._validate = validate
        self._state: Episode | None = None

    def reset(self, sample: Record) -> Observation:
        """Begin an episode (see `DocEnv.reset`)."""
        gold = checked_gold(sample, self._services.store, allow_empty=self._config.allow_empty_gold)
        self._state = Episode(sample, gold, gold_regions(sample), references(sample))
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return Observation(tuple(Message(role, (TextPart(self._text(role.value)),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        episode = self._running()
        parsed = self._grammar.parse(turn.text, turn.stop)
        record = TurnRecord(turn=len(episode.log.records) + 1, parsed=parsed)
        episode.settled = episode.progress
        if isinstance(parsed.action, Answer):
            return await self._answer(episode, record, parsed.action)
        limit = self._limit(episode, record)
        if limit is not None:
            record.executed = False
            record.effect = {"kind": "not_executed"}
            episode.log.records.append(record)
            return _ended(record, limit, self._settle(limit, outcome=0.0))
        parts = await self._execute(episode, record, turn.text)
        episode.log.records.append(record)
        return StepResult(Observation.user(*parts), info=record.to_dict())

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end (see `DocEnv.conclude`)."""
        episode = self._running()
        if episode.log.records:
            episode.progress = episode.settled
            episode.log.records[-1].dropped = True
        return self._settle(reason, outcome=0.0)

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name.

        Besides those of `TurnLog.metrics`: `reward/*` for every term; `finished` (ended with an answer),
        `context_full`, `image_limit`; `searches`, of which `no_new_page` found nothing, `selections`, of
        which `select_fallbacks` took the first candidate for want of an index, `crops` and the `boxes` that
        were scored, `informed_turns` (turns with an information block), `images`; `pages_seen` and
        `retrieval_recall` over all candidates shown, `recall_first` over the first of each search,
        `recall_selected` over the selected ones. `reward/outcome` is the validation score of either variant.
        """
        return self._require().metrics(implicit=self._config.selection.implicit)

    def _limit(self, episode: Episode, record: TurnRecord) -> EndReason | None:
        """Why nothing but an answer is carried out any more."""
        if record.turn >= self._config.assistant_turns:
            return EndReason.TURN_LIMIT
        if episode.progress.images > self._config.image_limit:
            return EndReason.IMAGE_LIMIT
        return None

    async def _execute(self, episode: Episode, record: TurnRecord, text: str) -> tuple[Part, ...]:
        match record.parsed.action:
            case Search() as search:
                return await self._search(episode, record, search)
            case Select() as select:
                parts = self._select(episode, record, select)
            case Crop() as crop:
                parts = self._crop(episode, record, crop)
            case _:
                parts = None
        return self._feedback(record, text) if parts is None else parts

    async def _search(self, episode: Episode, record: TurnRecord, action: Search) -> tuple[Part, ...]:
        search = self._config.search
        excluded = frozenset(episode.selected(implicit=self._config.selection.implicit))
        started = time.perf_counter()
        hits = await self._services.retriever.search(
            action.query,
            doc_id=episode.sample.doc_id if search.scope is SearchScope.DOCUMENT else None,
            top_k=search.top_k,
            exclude=excluded if search.exclude_selected else (),
        )
        record.seconds["search"] = time.perf_counter() - started
        found = _distinct(hits, excluded)[: search.candidates]
        if not found:
            record.effect = {"kind": "no_new_page", "hits": len(hits)}
            return (TextPart(self._text("no_new_page")),)
        # the first look at a document reads its manifest
        views = await asyncio.to_thread(self._page_views, [hit for _, hit in found], record.turn)
        pages = [
            {**view.to_dict(), "rank": rank, "score": float(hit.score), "gold": hit.ref in episode.gold}
            for view, (rank, hit) in zip(views, found, strict=True)
        ]
        record.effect = {"kind": "candidates", "hits": len(hits), "pages": pages}
        return self._show_candidates(episode, record, views)

    def _page_views(self, hits: Sequence[Hit], turn: int) -> tuple[View, ...]:
        store, display = self._services.store, self._config.display
        return tuple(page_view(store.page(hit.ref), display, turn) for hit in hits)

    def _show_candidates(
        self, episode: Episode, record: TurnRecord, views: tuple[View, ...]
    ) -> tuple[Part, ...]:
        record.image_tokens = sum(view.tokens for view in views)
        progress = episode.progress
        pages = tuple(view.image.page for view in views)
        if not self._config.grammar.select:
            # the one page is selected as it is shown
            rounds = (*progress.rounds, SearchRound(pages, selected=pages[0]))
            episode.progress = progress.shown(views, rounds=rounds, pending=(), view=views[0])
            return (TextPart(self._text("page") + "\n"), ImagePart(views[0].image))
        rounds = (*progress.rounds, SearchRound(pages))
        episode.progress = progress.shown(views, rounds=rounds, pending=views, view=None)
        parts: list[Part] = []
        lead = self._text("candidates")
        for index, view in enumerate(views):
            parts.append(TextPart(f"{lead}\n{self._text('label', index=index)} "))
            parts.append(ImagePart(view.image))
            lead = ""
        return tuple(parts)

    def _select(self, episode: Episode, record: TurnRecord, action: Select) -> tuple[Part, ...] | None:
        progress = episode.progress
        if not progress.pending:
            record.refused = bad_argument("no candidates were shown yet", action.block, action.argument)
            return None
        index = action.choices[0] - 1 if action.choices else None
        fallback = index is None or index >= len(progress.pending)
        if fallback and not self._config.selection.fallback:
            clause = f"no candidate has that index, the last is {len(progress.pending) - 1}"
            record.refused = bad_argument(clause, action.block, action.argument)
            return None
        index = 0 if index is None or fallback else index
        view = replace(progress.pending[index], turn=record.turn)
        page = view.image.page
        latest = SearchRound(progress.rounds[-1].candidates, selected=page)
        episode.progress = progress.shown([view], rounds=(*progress.rounds[:-1], latest), view=view)
        record.image_tokens = view.tokens
        record.effect = {
            "kind": "selection",
            "index": index,
            "fallback": fallback,
            "gold": page in episode.gold,
            **view.to_dict(),
        }
        return (TextPart(self._text("page") + "\n"), ImagePart(view.image))

    def _crop(self, episode: Episode, record: TurnRecord, action: Crop) -> tuple[Part, ...] | None:
        progress = episode.progress
        if progress.view is None:
            clause = (
                "no page was selected since the last search" if progress.rounds else "no page was shown yet"
            )
            record.refused = bad_argument(clause, action.block, action.argument)
            return None
        try:
            view = self._cutting.stitch(progress.view, action.boxes, self._config.display, record.turn)
        except (CropError, DisplayError) as error:
            record.refused = bad_argument(str(error), action.block, action.argument)
            return None
        rounds, drawn = progress.rounds, ()
        if isinstance(progress.view, View):
            drawn = tuple(self._cutting.region(progress.view, box) for box in action.boxes)
            rounds = (*rounds[:-1], replace(rounds[-1], boxes=drawn))
        episode.progress = progress.shown([view], rounds=rounds, view=view)
        record.image_tokens = view.tokens
        record.effect = {"kind": "crop", **view.to_dict(), "scored": [list(box) for box in drawn]}
        return (TextPart(self._text("crop") + "\n"), ImagePart(view.image))

    def _feedback(self, record: TurnRecord, text: str) -> tuple[Part, ...]:
        invalid = record.invalid
        if not isinstance(invalid, Invalid):
            raise TypeError(f"UniDoc-RL has no action {type(record.parsed.action).__name__}")
        record.effect = {"kind": "feedback"}
        about_boxes = invalid.block is not None and text.startswith("<bbox>", invalid.block[0])
        return (TextPart(self._text("feedback", reason=invalid.detail, about_boxes=about_boxes)),)

    async def _answer(self, episode: Episode, record: TurnRecord, action: Answer) -> StepResult:
        # a note in the last turn counts for the format
        episode.log.records.append(record)
        fmt = self._format(episode, EndReason.ANSWERED)
        asked = bool(action.text) and (self._validate or self._reward.needs_outcome(fmt))
        outcome = 0.0
        if asked:
            started = time.perf_counter()
            outcome = await self._services.judge.judge(
                episode.sample.question, episode.references, action.text
            )
            record.seconds["judge"] = time.perf_counter() - started
        record.effect = {"kind": "answer", "judged": asked}
        return _ended(record, EndReason.ANSWERED, self._settle(EndReason.ANSWERED, outcome=outcome))

    def _settle(self, reason: EndReason, *, outcome: float) -> RewardTerms:
        episode = self._running()
        fmt = self._format(episode, reason)
        values = self._reward.terms(
            episode.progress.rounds, episode.gold, episode.wanted, fmt=fmt, outcome=outcome
        )
        episode.end, episode.terms = reason, RewardTerms(values, reward=values["total"])
        return episode.terms

    def _format(self, episode: Episode, reason: EndReason) -> float:
        records = episode.log.records
        conduct = Conduct(
            turns=len(records),
            faults=sum(record.invalid is not None for record in records),
            searched=episode.ran(Search) > 0,
            selected=not self._config.grammar.select or episode.ran(Select) > 0,
            noted=any(record.parsed.notes for record in records),
            finished=reason is EndReason.ANSWERED,
        )
        return format_reward(conduct, self._config.format.mode)

    def _text(self, part: str, **variables: Any) -> str:
        config = self._config
        return self._prompt.render(
            part,
            question=self._require().sample.question,
            turns=config.assistant_turns,
            select=config.grammar.select,
            crop=config.grammar.crop,
            candidates=config.search.candidates,
            boxes=config.crop.max_boxes,
            frame=config.coords.frame.value,
            **variables,
        )

    def _running(self) -> Episode:
        episode = self._require()
        if episode.end is not None:
            raise RuntimeError(f"the episode has ended ({episode.end.value})")
        return episode

    def _require(self) -> Episode:
        if self._state is None:
            raise RuntimeError("call reset() first")
        return self._state


def make_grammar(config: UniDocConfig) -> UniDocGrammar:
    """The grammar that a configuration describes."""
    return UniDocGrammar(
        select=config.grammar.select,
        crop=config.grammar.crop,
        select_fallback=config.selection.fallback,
        max_boxes=config.crop.max_boxes,
    )


def system() -> System:
    """UniDoc-RL as a system that can be trained."""
    return System(
        name="unidoc_rl",
        summary="search candidate pages, select one, magnify its regions, answer (arXiv 2604.14967)",
        config_type=UniDocConfig,
        env=UniDocEnv,
        make_grammar=make_grammar,
        prompt_spec=UNIDOC_PROMPT,
        default_prompt=lambda config: config.prompt,
        max_turns=lambda config: config.assistant_turns,
        max_images=lambda config: config.max_images,
    )


def _distinct(hits: Sequence[Hit], excluded: Collection[PageRef]) -> list[tuple[int, Hit]]:
    """The hits with their ranks from 1, each page once and without the excluded ones."""
    ranked: dict[PageRef, tuple[int, Hit]] = {}
    for rank, hit in enumerate(hits, start=1):
        if hit.ref not in excluded:
            ranked.setdefault(hit.ref, (rank, hit))
    return list(ranked.values())


def _ended(record: TurnRecord, reason: EndReason, terms: RewardTerms) -> StepResult:
    return StepResult(None, end=reason, terms=terms, info=record.to_dict())
