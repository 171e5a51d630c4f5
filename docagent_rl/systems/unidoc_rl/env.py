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
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayError
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
    UnknownActionError,
)
from docagent_rl.envs.checks import checked_gold, references
from docagent_rl.envs.search_scope import SearchScope
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import View, page_view
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit
from docagent_rl.systems.unidoc_rl.actions import UniDocGrammar
from docagent_rl.systems.unidoc_rl.config import UniDocConfig
from docagent_rl.systems.unidoc_rl.episode import Episode
from docagent_rl.systems.unidoc_rl.regions import gold_regions
from docagent_rl.systems.unidoc_rl.rewards import Conduct, format_reward
from docagent_rl.systems.unidoc_rl.search_rounds import SearchRound

UNIDOC_PROMPT = PromptSpec(
    required=frozenset({"user", "feedback", "candidates", "label", "page", "crop", "no_new_page"}),
    optional=frozenset({"system"}),
    variables=frozenset(
        {
            "question", "turns", "select", "crop", "candidates", "boxes", "frame",
            "index", "reason", "about_boxes",
        }
    ),
    shown=frozenset({"question"}),
)  # fmt: skip


class UniDocEnv(DocEnv[Episode]):
    """One episode of UniDoc-RL.

    A search shows up to three candidates, labelled by their index from 0; a selection shows one of them
    again; a box action shows regions of the selected page, cut from its raw raster and stacked. A box refers
    to the image shown last, a page or a stack. All observations are user messages that begin with a
    text.

    The reward comes with the last turn; its terms are `rewards.unidoc_rl.TERMS`. A turn whose observation was
    dropped, because it did not fit, has led to nothing: its candidates, selection and boxes do not count.

    Args:
        config: what to play.
        services: documents, retriever, judge.
        prompt: parts as in `UNIDOC_PROMPT`; by default the package's.
        validate: play for validation, which judges every answer, may pad boxes differently, and plays
            questions without gold pages.
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

    def open_episode(self, sample: Record) -> Episode:
        """The state before the first turn (see `DocEnv.open_episode`)."""
        allowed = self._config.allow_empty_gold or self._validate
        gold = checked_gold(sample, self._services.store, allow_empty=allowed)
        return Episode(sample, gold, gold_regions(sample), references(sample))

    def show_prompt(self, episode: Episode) -> Observation:
        """The prompt, without an image (see `DocEnv.show_prompt`)."""
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return Observation(tuple(Message(role, (TextPart(self._text(role.value)),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        episode = self.running
        parsed = self._grammar.parse(turn.text, turn.stop)
        logged = LoggedTurn(turn=len(episode.log.turns) + 1, parsed=parsed)
        episode.settled = episode.progress
        if isinstance(parsed.action, Answer):
            return await self._answer(episode, logged, parsed.action)
        limit = self._limit(episode, logged)
        if limit is not None:
            logged.executed = False
            logged.effect = {"kind": "not_executed"}
            episode.log.turns.append(logged)
            return _ended(logged, limit, self._settle(limit, outcome=0.0))
        parts = await self._execute(episode, logged, turn.text)
        episode.log.turns.append(logged)
        return StepResult(Observation.user(*parts), info=logged.to_dict())

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end (see `DocEnv.conclude`)."""
        episode = self.running
        if episode.log.turns:
            episode.progress = episode.settled
            episode.log.turns[-1].dropped = True
        return self._settle(reason, outcome=0.0)

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name.

        Besides those of `TurnLog.metrics`: `reward/*` for every term; `finished` (ended with an answer),
        `context_full`, `image_limit`; `searches`, of which `no_new_page` found nothing, `selections`, of
        which `select_fallbacks` took the first candidate for want of an index, `crops` and the `boxes` that
        were scored, `informed_turns` (turns with an information block), `images`; `pages_seen`;
        of questions with gold pages `retrieval_recall` over all candidates shown, `recall_first` over the
        first of each search, `recall_selected` over the selected ones, and `retrieval_ndcg`. `reward/outcome`
        is the validation score of either variant.
        """
        return self.episode.metrics(implicit=self._config.selection.implicit)

    def _limit(self, episode: Episode, logged: LoggedTurn) -> EndReason | None:
        """Why nothing but an answer is carried out any more."""
        if logged.turn >= self._config.assistant_turns:
            return EndReason.TURN_LIMIT
        if episode.progress.images > self._config.image_limit:
            return EndReason.IMAGE_LIMIT
        return None

    async def _execute(self, episode: Episode, logged: LoggedTurn, text: str) -> tuple[Part, ...]:
        match logged.parsed.action:
            case Search() as search:
                return await self._search(episode, logged, search)
            case Select() as select:
                parts = self._select(episode, logged, select)
            case Crop() as crop:
                parts = self._crop(episode, logged, crop)
            case _:
                parts = None
        return self._feedback(logged, text) if parts is None else parts

    async def _search(self, episode: Episode, logged: LoggedTurn, action: Search) -> tuple[Part, ...]:
        search = self._config.search
        excluded = frozenset(episode.selected(implicit=self._config.selection.implicit))
        started = time.perf_counter()
        hits = await self._services.retriever.search(
            action.query,
            doc_id=episode.sample.doc_id if search.scope is SearchScope.DOCUMENT else None,
            top_k=search.top_k,
            exclude=excluded if search.exclude_selected else (),
        )
        logged.seconds["search"] = time.perf_counter() - started
        found = _distinct(hits, excluded)[: search.candidates]
        if not found:
            logged.effect = {"kind": "no_new_page", "hits": len(hits)}
            return (TextPart(self._text("no_new_page")),)
        # the first look at a document reads its manifest
        views = await asyncio.to_thread(self._page_views, [hit for _, hit in found], logged.turn)
        pages = [
            {**view.to_dict(), "rank": rank, "score": float(hit.score), "gold": hit.ref in episode.gold}
            for view, (rank, hit) in zip(views, found, strict=True)
        ]
        # without a selection there is nothing to choose from
        kind = "candidates" if self._config.grammar.select else "pages"
        logged.effect = {"kind": kind, "hits": len(hits), "pages": pages}
        return self._show_candidates(episode, logged, views)

    def _page_views(self, hits: Sequence[Hit], turn: int) -> tuple[View, ...]:
        store, display = self._services.store, self._config.display
        return tuple(page_view(store.page(hit.ref), display, turn) for hit in hits)

    def _show_candidates(
        self, episode: Episode, logged: LoggedTurn, views: tuple[View, ...]
    ) -> tuple[Part, ...]:
        logged.image_tokens = sum(view.tokens for view in views)
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

    def _select(self, episode: Episode, logged: LoggedTurn, action: Select) -> tuple[Part, ...] | None:
        progress = episode.progress
        if not progress.pending:
            logged.refused = bad_argument("no candidates were shown yet", action.block, action.argument)
            return None
        index = action.choices[0] - 1 if action.choices else None
        fallback = index is None or index >= len(progress.pending)
        if fallback and not self._config.selection.fallback:
            clause = f"no candidate has that index, the last is {len(progress.pending) - 1}"
            logged.refused = bad_argument(clause, action.block, action.argument)
            return None
        index = 0 if index is None or fallback else index
        view = replace(progress.pending[index], turn=logged.turn)
        page = view.image.page
        # boxes drawn before stay: a second selection must not erase what a first one led to
        latest = replace(progress.rounds[-1], selected=page)
        episode.progress = progress.shown([view], rounds=(*progress.rounds[:-1], latest), view=view)
        logged.image_tokens = view.tokens
        logged.effect = {
            "kind": "selection",
            "index": index,
            "fallback": fallback,
            "gold": page in episode.gold,
            **view.to_dict(),
        }
        return (TextPart(self._text("page") + "\n"), ImagePart(view.image))

    def _crop(self, episode: Episode, logged: LoggedTurn, action: Crop) -> tuple[Part, ...] | None:
        progress = episode.progress
        if progress.view is None:
            clause = (
                "no page was selected since the last search" if progress.rounds else "no page was shown yet"
            )
            logged.refused = bad_argument(clause, action.block, action.argument)
            return None
        try:
            view = self._cutting.stack(progress.view, action.boxes, self._config.display, logged.turn)
        except (CropError, DisplayError) as error:
            logged.refused = bad_argument(str(error), action.block, action.argument)
            return None
        rounds, drawn = progress.rounds, ()
        # the first boxes of a search count, of a page and not of a crop
        if isinstance(progress.view, View) and not rounds[-1].boxes:
            drawn = tuple(self._cutting.region(progress.view, box) for box in action.boxes)
            rounds = (*rounds[:-1], rounds[-1].drawn(drawn))
        episode.progress = progress.shown([view], rounds=rounds, view=view)
        logged.image_tokens = view.tokens
        logged.effect = {"kind": "crop", **view.to_dict(), "scored": [list(box) for box in drawn]}
        return (TextPart(self._text("crop") + "\n"), ImagePart(view.image))

    def _feedback(self, logged: LoggedTurn, text: str) -> tuple[Part, ...]:
        invalid = logged.invalid
        if not isinstance(invalid, Invalid):
            raise UnknownActionError("UniDoc-RL", logged.parsed.action)
        logged.effect = {"kind": "feedback"}
        about_boxes = invalid.block is not None and text.startswith("<bbox>", invalid.block[0])
        return (TextPart(self._text("feedback", reason=invalid.detail, about_boxes=about_boxes)),)

    async def _answer(self, episode: Episode, logged: LoggedTurn, action: Answer) -> StepResult:
        # a note in the last turn counts for the format
        episode.log.turns.append(logged)
        fmt = self._format(episode, EndReason.ANSWERED)
        asked = bool(action.text) and (self._validate or self._reward.needs_outcome(fmt))
        outcome = 0.0
        if asked:
            started = time.perf_counter()
            outcome = await self._services.judge.judge(
                episode.sample.question, episode.references, action.text
            )
            logged.seconds["judge"] = time.perf_counter() - started
        logged.effect = {"kind": "answer", "judged": asked}
        return _ended(logged, EndReason.ANSWERED, self._settle(EndReason.ANSWERED, outcome=outcome))

    def _settle(self, reason: EndReason, *, outcome: float) -> RewardTerms:
        episode = self.running
        fmt = self._format(episode, reason)
        values = self._reward.terms(
            episode.progress.rounds, episode.gold, episode.wanted, fmt=fmt, outcome=outcome
        )
        episode.end, episode.terms = reason, RewardTerms(values, reward=values["total"])
        return episode.terms

    def _format(self, episode: Episode, reason: EndReason) -> float:
        turns = episode.log.turns
        conduct = Conduct(
            turns=len(turns),
            faults=sum(logged.invalid is not None for logged in turns),
            searched=episode.ran(Search) > 0,
            selected=not self._config.grammar.select or episode.ran(Select) > 0,
            noted=any(logged.parsed.notes for logged in turns),
            finished=reason is EndReason.ANSWERED,
        )
        return format_reward(conduct, self._config.format.mode)

    def _text(self, part: str, **variables: Any) -> str:
        config = self._config
        return self._prompt.render(
            part,
            question=self.episode.sample.question,
            turns=config.assistant_turns,
            select=config.grammar.select,
            crop=config.grammar.crop,
            candidates=config.search.candidates,
            boxes=config.crop.max_boxes,
            frame=config.coords.frame.value,
            **variables,
        )


def make_grammar(config: UniDocConfig) -> UniDocGrammar:
    """The grammar that a configuration describes."""
    return UniDocGrammar(
        select=config.grammar.select,
        crop=config.grammar.crop,
        select_fallback=config.selection.fallback,
        max_boxes=config.crop.max_boxes,
    )


def _distinct(hits: Sequence[Hit], excluded: Collection[PageRef]) -> list[tuple[int, Hit]]:
    """The hits with their ranks from 1, each page once and without the excluded ones."""
    ranked: dict[PageRef, tuple[int, Hit]] = {}
    for rank, hit in enumerate(hits, start=1):
        if hit.ref not in excluded:
            ranked.setdefault(hit.ref, (rank, hit))
    return list(ranked.values())


def _ended(logged: LoggedTurn, reason: EndReason, terms: RewardTerms) -> StepResult:
    return StepResult(None, end=reason, terms=terms, info=logged.to_dict())
