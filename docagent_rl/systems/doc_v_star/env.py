"""The environment of Doc-V*: an overview of one document, pages by meaning or by number, an answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.base import Answer, Fetch, Invalid, Search
from docagent_rl.base.errors import UserError
from docagent_rl.base.prompts import PromptTemplate, load_prompt
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayError
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    Observation,
    RewardTerms,
    StepResult,
    UnknownActionError,
)
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.token_budget import cut_to_chars
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.views import page_view
from docagent_rl.records.record import Record
from docagent_rl.retrieval import Hit
from docagent_rl.systems.doc_v_star.actions import DocVStarGrammar, DocVStarTurn
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.episode import TERMS, Episode, open_episode
from docagent_rl.systems.doc_v_star.rewards import HitRule, evidence_score, format_score
from docagent_rl.systems.doc_v_star.thought import Fault
from docagent_rl.systems.doc_v_star.writer import DOC_V_STAR_PROMPT, Item, Writer


@dataclass(slots=True)
class _Served:
    """What became of the pages that an action asked for."""

    items: list[Item] = field(default_factory=list)
    pages: list[dict[str, Any]] = field(default_factory=list)
    visited: list[int] = field(default_factory=list)
    withheld: list[int] = field(default_factory=list)


class DocVStarEnv(DocEnv[Episode]):
    """One episode of Doc-V*.

    The prompt holds the rules, the question and an overview of the document: grids of labelled thumbnails.
    Every turn is a thought in blocks and one action. A retrieval shows the best pages that were not shown
    before, `min(ceil(N / 10), 4)` of them; a fetch shows pages by number. Shown again, a page is only a line
    that says when it was shown. Each observation ends with the working memory, which are the summaries of all
    turns so far, and with the turns left; the conversation grows. After the last turn without an answer the
    episode ends; that turn's action is not executed.

    The reward is one scalar on the last turn; its terms are `TERMS`. The judge is never asked.

    Args:
        config: what to play.
        services: documents and retriever.
        prompt: parts as in `DOC_V_STAR_PROMPT`; by default the package's.
        validate: play for validation, which also plays questions whose evidence is unknown.
    """

    def __init__(
        self,
        config: DocVStarConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config = config
        self._services = services
        self._prompt = prompt or load_prompt(config.prompt, DOC_V_STAR_PROMPT)
        self._grammar = make_grammar(config)
        self._answer_rule = config.answer.rule()
        self._reward = config.reward.rule()
        self._validate = validate

    def open_episode(self, sample: Record) -> Episode:
        """The state before the first turn (see `DocEnv.open_episode`).

        Raises:
            UserError: also for evidence in another document, for unknown evidence in training, for a window
                that makes no sense, and for a page that cannot be shown.
        """
        episode = open_episode(sample, self._services.store, self._config, validate=self._validate)
        self._check_pages(episode)
        return episode

    def show_prompt(self, episode: Episode) -> Observation:
        """The prompt with the overview (see `DocEnv.show_prompt`).

        Raises:
            UserError: the overview fills the context.
        """
        sample = episode.sample
        self._fit_overview(episode)
        observation = self._writer.opening()
        if (room := self._writer.room()) is not None and room < 0:
            raise UserError(
                f"question {sample.question_id!r}: the overview of {sample.doc_id!r}, {len(episode.pages)} "
                f"pages, leaves less than reserve_tokens={self._config.reserve_tokens} of "
                f"context_tokens={self._config.context_tokens}: raise it or drop the question"
            )
        return observation

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        episode = self.running
        number = len(episode.log.turns) + 1
        parsed = self._grammar.parse(turn.text, turn.stop, first=number == 1)
        logged = LoggedTurn(turn=number, parsed=parsed)
        faults = set(parsed.faults)
        listed = self._take_notes(episode, number, parsed, faults)
        self._writer.count([turn.text])
        episode.settled = len(episode.visited)
        observation, end, terms = None, None, RewardTerms()
        if isinstance(parsed.action, Answer):
            end, score = EndReason.ANSWERED, await self._score(episode, logged, parsed.action)
        elif number >= episode.last_turn:
            logged.executed = False
            logged.effect = {"kind": "not_executed"}
            end, score = EndReason.CONTEXT_FULL if episode.cut_short else EndReason.TURN_LIMIT, 0.0
        else:
            items = await self._execute(episode, logged, faults)
            observation = self._writer.feedback(items, number + 1)
        episode.faults.update(faults)
        episode.log.turns.append(logged)
        if end is not None:
            terms = self._settle(end, answer=score)
        info = {
            **logged.to_dict(),
            "faults": [f.value for f in Fault if f in faults],
            "relevant_pages": listed,
        }
        return StepResult(observation, end=end, terms=terms, info=info)

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end (see `DocEnv.conclude`)."""
        episode = self.running
        if episode.log.turns:
            episode.forget_last()
            episode.log.turns[-1].dropped = True
        return self._settle(reason, answer=0.0)

    def metrics(self) -> dict[str, float]:
        """Numbers of the episode by name.

        Besides those of `TurnLog.metrics`: `reward/*` for every term; `fault/*`, turns with each kind of
        fault, and `format_ok`; `finished`, `no_answer` (also for a blank one), `context_full`, `budget_cut`
        and `pages_withheld`; `num_pages`, `pages_seen`, `pages_listed` as relevant; of the overview
        `overview/sheets`, `overview/cell_px`, `overview/pages` and `overview/adapted`, which is 1 where it
        was made to fit the prompt; `evidence_known`, `evidence_dropped` (evidence pages outside the window);
        for `retrieval` and `fetch` `/calls`, `/used`, `/pages` it brought and `/evidence_pages` among them.
        Of questions with evidence pages also `retrieval_recall` of the pages shown, `page_precision`,
        `page_recall` and `page_f1` of those listed, and the same as `retrieval/page_*` and `fetch/page_*` of
        what the action brought, where it was used.
        """
        return self.episode.metrics()

    def adapted(self) -> str | None:
        """What the overview had to give up (see `DocEnv.adapted`)."""
        plan = self.episode.overview
        return plan.describe() if plan is not None and plan.adapted else None

    def _fit_overview(self, episode: Episode) -> None:
        limit = self._services.prompt_tokens
        if self._writer.plan_overview(limit, self._services.count_tokens):
            return
        tokens = self._config.overview_tokens(len(episode.pages))
        raise UserError(
            f"question {episode.sample.question_id!r}: question and overview of {episode.sample.doc_id!r}, "
            f"{len(episode.pages)} pages and {tokens} visual tokens, do not fit a prompt of {limit} tokens "
            f"with docagent.env.overview.fit={self._config.overview.fit.value}: raise "
            "data.max_prompt_length, change that key, or drop the question"
        )

    def _check_pages(self, episode: Episode) -> None:
        for page in episode.pages:
            try:
                self._config.display.shown(page.size)
            except DisplayError as error:
                raise UserError(
                    f"page {page.ref} cannot be shown: {error}; leave its document out"
                ) from error

    def _take_notes(
        self, episode: Episode, number: int, parsed: DocVStarTurn, faults: set[Fault]
    ) -> list[int]:
        """Keep the summary and the relevant pages of a turn; the pages that exist."""
        if parsed.summary:
            summary = cut_to_chars(parsed.summary, self._config.memory.summary_chars)
            episode.summaries.append((number, summary))
        listed = [page for page in parsed.relevant if episode.has(page)]
        if len(listed) < len(parsed.relevant):
            faults.add(Fault.RELEVANT_PAGES)
        episode.relevant.update(dict.fromkeys(listed))
        return listed

    async def _execute(self, episode: Episode, logged: LoggedTurn, faults: set[Fault]) -> list[Item]:
        match logged.parsed.action:
            case Search() as action:
                return await self._retrieve(episode, logged, action)
            case Fetch() as action:
                return self._fetch(episode, logged, action, faults)
            case Invalid() as action:
                logged.effect = {"kind": "feedback"}
                return [self._writer.line("reminder", reason=action.detail)]
            case action:
                raise UnknownActionError("Doc-V*", action)

    async def _retrieve(self, episode: Episode, logged: LoggedTurn, action: Search) -> list[Item]:
        settings, doc_id = self._config.retrieval, episode.sample.doc_id
        k = settings.k(len(episode.pages))
        if len(episode.visited) == len(episode.pages):
            logged.effect = {"kind": "no_new_page", "hits": 0}
            return [self._writer.line("none_left")]
        started = time.perf_counter()
        hits = await self._services.retriever.search(
            action.query[: settings.query_chars], doc_id=doc_id, top_k=k, exclude=self._excluded(episode)
        )
        logged.seconds["search"] = time.perf_counter() - started
        found = self._fresh(episode, hits)[:k]
        if not found:
            logged.effect = {"kind": "no_new_page", "hits": len(hits)}
            return [self._writer.line("none_found")]
        served = self._serve(episode, logged, [hit.ref.page for _, hit in found])
        ranked = {hit.ref.page: {"rank": rank, "score": float(hit.score)} for rank, hit in found}
        pages = [{**page, **ranked[page["number"]]} for page in served.pages]
        logged.effect = {
            "kind": "pages",
            "hits": len(hits),
            "pages": pages,
            "withheld": served.withheld,
            "cut_query": len(action.query) > settings.query_chars,
        }
        return served.items

    def _excluded(self, episode: Episode) -> frozenset[PageRef]:
        """The pages of the document that a retrieval must not bring."""
        doc_id = episode.sample.doc_id
        total = self._services.store.document(doc_id).num_pages
        outside = [*range(1, episode.first_page), *range(episode.last_page + 1, total + 1)]
        return frozenset(PageRef(doc_id, page) for page in (*episode.visited, *outside))

    def _fresh(self, episode: Episode, hits: Sequence[Hit]) -> list[tuple[int, Hit]]:
        """The hits that are unvisited pages of the document, with their ranks from 1."""
        new: dict[PageRef, tuple[int, Hit]] = {}
        for rank, hit in enumerate(hits, start=1):
            inside = hit.ref.doc_id == episode.sample.doc_id and episode.has(hit.ref.page)
            if inside and hit.ref.page not in episode.visited:
                new.setdefault(hit.ref, (rank, hit))
        return list(new.values())

    def _fetch(self, episode: Episode, logged: LoggedTurn, action: Fetch, faults: set[Fault]) -> list[Item]:
        limit = self._config.fetch.max_pages
        there = [page for page in action.pages if episode.has(page)]
        missing = [page for page in action.pages if not episode.has(page)]
        notes: list[Item] = []
        if missing:
            faults.add(Fault.FETCH_PAGES)
            notes.append(self._writer.note("no_such_page", missing))
        if Fault.FETCH_PAGES in logged.parsed.faults:
            notes.append(self._writer.line("no_number"))
        if there[limit:]:
            notes.append(self._writer.note("surplus", there[limit:]))
        served = self._serve(episode, logged, there[:limit])
        logged.effect = {
            "kind": "pages",
            "pages": served.pages,
            "visited": served.visited,
            "withheld": served.withheld,
            "missing": missing,
            "surplus": there[limit:],
        }
        return [*served.items, *notes]

    def _serve(self, episode: Episode, logged: LoggedTurn, wanted: Sequence[int]) -> _Served:
        """Show pages in order: as an image, as a reminder when shown before, not at all for want of room."""
        served, room = _Served(), self._writer.room(logged.turn + 1)
        for number in wanted:
            if number in episode.visited:
                served.visited.append(number)
                served.items.append(self._writer.line("visited", page=number, turn=episode.visited[number]))
                continue
            view = page_view(episode.page(number), self._config.display, logged.turn)
            items = [self._writer.line("page", page=number), view.image]
            cost = self._writer.cost(items)
            if room is not None and cost > room:
                served.withheld.append(number)
                continue
            room = None if room is None else room - cost
            served.items += items
            gold = number in (episode.evidence or ())
            served.pages.append({**view.to_dict(), "number": number, "gold": gold})
            logged.image_tokens += view.tokens
        episode.visited.update({page["number"]: logged.turn for page in served.pages})
        if served.withheld:
            episode.withheld += len(served.withheld)
            served.items.append(self._writer.note("withheld", served.withheld))
            if not served.pages:
                episode.last_turn, episode.cut_short = min(episode.last_turn, logged.turn + 1), True
        return served

    async def _score(self, episode: Episode, logged: LoggedTurn, action: Answer) -> float:
        episode.answered = bool(action.text)
        logged.effect = {"kind": "answer"}
        # edit distances of long texts take a while
        return await asyncio.to_thread(self._answer_rule.score, action.text, episode.gold)

    def _settle(self, reason: EndReason, *, answer: float) -> RewardTerms:
        episode, settings = self.running, self._config.reward
        evidence = 0.0
        if episode.evidence is not None:
            visited = episode.visited if settings.hits is HitRule.VISITED else None
            evidence = evidence_score(episode.relevant, episode.evidence, visited, beta2=settings.beta2)
        fmt = format_score(obeyed=not episode.faults, answered=episode.answered)
        total = self._reward.total(answer=answer, evidence=evidence, fmt=fmt)
        values = dict(zip(TERMS, (answer, evidence, fmt, total), strict=True))
        episode.end, episode.terms = reason, RewardTerms(values, reward=total)
        return episode.terms

    @property
    def _writer(self) -> Writer:
        return Writer(self._config, self._prompt, self.episode)


def make_grammar(config: DocVStarConfig) -> DocVStarGrammar:
    """The grammar that a configuration describes."""
    return DocVStarGrammar(
        retrieval=config.retrieval.enabled, fetch=config.fetch.enabled, analysis=config.thought.analysis
    )
