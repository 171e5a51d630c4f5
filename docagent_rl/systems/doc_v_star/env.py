"""The environment of Doc-V*: overview of one document, pages by query or number, an answer."""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import cast

from docagent_rl.actions.base import Answer, Fetch, Search
from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    EndReason,
    Line,
    Message,
    Observation,
    Part,
    RewardTerms,
    Role,
    TextPart,
    parts_of,
)
from docagent_rl.envs.effects import Answered, NoNewPage, PagesShown
from docagent_rl.envs.outcome import Outcome
from docagent_rl.envs.shown_page import ShownPage
from docagent_rl.envs.token_budget import cut_to_chars, estimated_tokens
from docagent_rl.envs.tool_env import ToolEnv, new_hits
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.envs.views import page_view
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.doc_v_star.actions import DocVStarGrammar, Fault
from docagent_rl.systems.doc_v_star.config import DocVStarConfig
from docagent_rl.systems.doc_v_star.overview import OverviewPlan, overview, sheet_headings
from docagent_rl.systems.doc_v_star.prompt import PROMPT
from docagent_rl.systems.doc_v_star.rewards import HitRule, evidence_score, format_score
from docagent_rl.systems.doc_v_star.state import DocVStarLoggedTurn, DocVState, checked_state

_MESSAGE_TOKENS = 8
"""A cautious estimate of the tokens that a chat template adds to a message."""
_PROMPT_TOKENS = 64
"""Tokens added to a prompt, including the header of the first turn, and a margin because texts are
counted separately.
"""
_IMAGE_MARKS = 2
"""Marker tokens around the visual tokens of an image."""

_LISTED = 10
"""Maximum page numbers in a note; a policy may request any number of nonexistent pages."""


@dataclass(slots=True)
class _Served:
    """The pages that an action requested, by result."""

    items: list[Line] = field(default_factory=list)
    pages: list[ShownPage] = field(default_factory=list)
    visited: list[int] = field(default_factory=list)
    withheld: list[int] = field(default_factory=list)


class DocVStarEnv(ToolEnv[DocVStarConfig, DocVState]):
    """One trajectory of Doc-V*.

    The prompt contains the rules, the question and an overview of the document: grids of labelled
    thumbnails. Every turn is a thought made of blocks, and one action. A retrieval shows the
    `min(ceil(N / 10), 4)` best pages that were not shown before; a fetch shows pages by number. A
    page that was shown before is replaced by a line that says when. Each observation ends with the
    working memory, that is, the summaries of all turns so far, and with the number of turns left.
    The conversation grows with every turn. The last turn ends the trajectory even without an
    answer; its action is not executed then.

    The reward is one scalar on the last turn; its terms are `rewards.TERMS`. The judge is never
    asked. Validation also plays questions whose evidence is unknown.
    """

    title = "Doc-V*"
    spec = PROMPT

    @staticmethod
    def make_grammar(config: DocVStarConfig) -> DocVStarGrammar:
        """Return the grammar for a configuration."""
        return DocVStarGrammar(
            retrieval=config.retrieval.enabled,
            fetch=config.fetch.enabled,
            analysis=config.thought.analysis,
        )

    def variables(self, state: DocVState) -> dict[str, object]:
        """Return the variables that all parts of the prompt may use."""
        config = self._config
        plan = state.overview
        return {
            "num_pages": len(state.pages),
            "first_page": state.first_page,
            "last_page": state.last_page,
            "turns": config.assistant_turns,
            "k": config.retrieval.k(len(state.pages)),
            "fetch_pages": config.fetch.max_pages,
            "retrieval": config.retrieval.enabled,
            "fetch": config.fetch.enabled,
            "analysis": config.thought.analysis,
            "overview": config.overview.enabled,
            "header": config.overview.header_px > 0,
            "stride": plan.stride if plan else 1,
            "shown": plan.shown if plan else 0,
            "memory": config.memory.enabled,
            "abstention": config.answer.abstentions[0].capitalize(),
        }

    def new_state(self, sample: Sample) -> DocVState:
        """Check that all pages can be shown; return the initial state (see `DocEnv.new_state`)."""
        state = checked_state(sample, self._services.store, self._config, validate=self._validate)
        for page in state.pages:
            page_view(page, self._config.display, turn=0)
        return state

    def show_prompt(self, state: DocVState) -> Observation:
        """Return the prompt with the overview; raises `UserError` if it fills the context."""
        sample = state.sample
        limit = self._services.prompt_tokens
        if self._config.overview.enabled and not self._plan_overview(state):
            tokens = self._config.overview_tokens(len(state.pages))
            raise UserError(
                f"question {sample.question_id!r}: question and overview of {sample.doc_id!r}, "
                f"{len(state.pages)} pages and {tokens} visual tokens, do not fit into a prompt of "
                f"{limit} tokens however few pages it shows: raise data.max_prompt_length, or drop "
                "the question"
            )
        rules = self.text("system")
        items = [self.text("user"), *self._overview(), *self._last_words()]
        self._count([rules])
        self._count(items)
        if (room := self._room()) is not None and room < 0:
            raise UserError(
                f"question {sample.question_id!r}: the overview of {sample.doc_id!r}, "
                f"{len(state.pages)} pages, leaves fewer than "
                f"reserve_tokens={self._config.reserve_tokens} of "
                f"context_tokens={self._config.context_tokens}: raise it or drop the question"
            )
        return Observation(
            (Message(Role.SYSTEM, (TextPart(rules),)), Message(Role.USER, parts_of(items)))
        )

    def adapted(self) -> str | None:
        """Describe how the overview was reduced to fit (see `DocEnv.adapted`)."""
        plan = self.state.overview
        return plan.describe() if plan is not None and plan.adapted else None

    def read(self, state: DocVState, turn: AssistantTurn) -> DocVStarLoggedTurn:
        """Parse a turn, and store its summary and its relevant pages."""
        number = len(state.log.turns) + 1
        # unlike other grammars, this one has to know whether it is the first turn
        grammar = cast(DocVStarGrammar, self._grammar)
        parsed = grammar.parse(turn.text, turn.stop, first=number == 1)
        if parsed.summary:
            summary = cut_to_chars(parsed.summary, self._config.memory.summary_chars)
            state.summaries.append((number, summary))
        listed = [page for page in parsed.relevant if state.has(page)]
        stray = {Fault.RELEVANT_PAGES} if len(listed) < len(parsed.relevant) else set()
        state.relevant.update(dict.fromkeys(listed))
        self._count([turn.text])
        state.begin_turn()
        return DocVStarLoggedTurn(number, parsed, faults={*parsed.faults, *stray}, listed=listed)

    def limit(self, state: DocVState, logged: LoggedTurn) -> EndReason | None:
        """Return why only an answer is executed: it is the last turn.

        A full context brings the last turn forward.
        """
        if logged.turn < state.last_turn:
            return None
        return EndReason.CONTEXT_FULL if state.cut_short else EndReason.TURN_LIMIT

    def record(self, logged: LoggedTurn) -> TurnRecord:
        """Return the record of a turn, with its faults and its relevant pages."""
        turn = cast(DocVStarLoggedTurn, logged)
        faults = tuple(fault.value for fault in Fault if fault in turn.faults)
        return replace(turn.record(), faults=faults, relevant_pages=tuple(turn.listed))

    async def execute(self, state: DocVState, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """Retrieve or fetch pages, and append the working memory and the number of turns left."""
        match logged.action:
            case Search() as action:
                items = await self._retrieve(state, logged, action)
            case Fetch() as action:
                items = self._fetch(state, cast(DocVStarLoggedTurn, logged), action)
            case _:
                items = [self.text("reminder", reason=self.feedback(logged))]
        return self._shown(items, logged.turn + 1)

    async def score(self, state: DocVState, logged: LoggedTurn, action: Answer) -> Outcome:
        """Return the answer term R_a."""
        state.answered = bool(action.text)
        logged.effect = Answered()
        # in a thread, since edit distances of long texts take a while
        return Outcome.of(
            await asyncio.to_thread(self._config.answer.rule().score, action.text, state.gold)
        )

    def final_terms(self, end: EndReason, outcome: Outcome) -> RewardTerms:
        """End the trajectory and return its reward (appendix C)."""
        state = self.running
        reward = self._config.reward
        evidence = 0.0
        if state.evidence is not None:
            visited = state.visited if reward.hits is HitRule.VISITED else None
            evidence = evidence_score(state.relevant, state.evidence, visited, beta2=reward.beta2)
        values = {
            "answer": outcome.term,
            "evidence": evidence,
            "format": format_score(obeyed=not state.faults, answered=state.answered),
        }
        return state.finish(end, {**values, "total": reward.formula.total(values)})

    async def _retrieve(self, state: DocVState, logged: LoggedTurn, action: Search) -> list[Line]:
        settings = self._config.retrieval
        doc_id = state.sample.doc_id
        k = settings.k(len(state.pages))
        if len(state.visited) == len(state.pages):
            logged.effect = NoNewPage(hits=0)
            return [self.text("none_left")]
        exclude = frozenset(PageRef(doc_id, page) for page in state.visited)
        query = action.query[: settings.query_chars]
        hits = await self.search(logged, query, doc_id=doc_id, top_k=k, exclude=exclude)
        fresh = new_hits(hits, exclude)
        found = [
            (n, hit) for n, hit in fresh if hit.ref.doc_id == doc_id and state.has(hit.ref.page)
        ][:k]
        if not found:
            logged.effect = NoNewPage(len(hits))
            return [self.text("none_found")]
        served = self._serve(state, logged, [hit.ref.page for _, hit in found])
        ranked = {hit.ref: (rank, float(hit.score)) for rank, hit in found}
        pages = []
        for page in served.pages:
            rank, score = ranked[page.page]
            pages.append(replace(page, rank=rank, score=score))
        cut = len(action.query) > settings.query_chars
        logged.effect = PagesShown(
            tuple(pages), len(hits), own={"withheld": served.withheld, "cut_query": cut}
        )
        return served.items

    def _fetch(self, state: DocVState, logged: DocVStarLoggedTurn, action: Fetch) -> list[Line]:
        limit = self._config.fetch.max_pages
        there = [page for page in action.pages if state.has(page)]
        missing = [page for page in action.pages if not state.has(page)]
        notes: list[Line] = []
        if missing:
            logged.faults.add(Fault.FETCH_PAGES)
            notes.append(self._note("no_such_page", missing))
        if Fault.FETCH_PAGES in logged.parsed.faults:
            notes.append(self.text("no_number"))
        if there[limit:]:
            notes.append(self._note("surplus", there[limit:]))
        served = self._serve(state, logged, there[:limit])
        logged.effect = PagesShown(
            tuple(served.pages),
            own={
                "visited": served.visited,
                "withheld": served.withheld,
                "missing": missing,
                "surplus": there[limit:],
            },
        )
        return [*served.items, *notes]

    def _serve(self, state: DocVState, logged: LoggedTurn, wanted: Sequence[int]) -> _Served:
        """Show pages in order.

        A page that was shown before is replaced by a reminder; a page without room is withheld.
        """
        served = _Served()
        room = self._room(logged.turn + 1)
        for number in wanted:
            if number in state.visited:
                served.visited.append(number)
                served.items.append(self.text("visited", page=number, turn=state.visited[number]))
                continue
            view = page_view(state.page(number), self._config.display, logged.turn)
            items = [self.text("page", page=number), view.image]
            cost = self._cost(items)
            if room is not None and cost > room:
                served.withheld.append(number)
                continue
            room = None if room is None else room - cost
            served.items += items
            gold = number in (state.evidence or ())
            served.pages.append(replace(view.shown(), gold=gold, own={"number": number}))
            logged.image_tokens += view.tokens
        state.visited.update({shown.page.page: logged.turn for shown in served.pages})
        if served.withheld:
            state.withheld += len(served.withheld)
            served.items.append(self._note("withheld", served.withheld))
            if not served.pages:
                state.last_turn = min(state.last_turn, logged.turn + 1)
                state.cut_short = True
        return served

    def _note(self, part: str, pages: Sequence[int]) -> str:
        """Render a part of the prompt file about some pages; only the first few are named."""
        return self.text(part, pages=pages[:_LISTED], more=max(0, len(pages) - _LISTED))

    def _plan_overview(self, state: DocVState) -> bool:
        """Choose the best overview that fits into the prompt, without rendering it.

        Returns whether there is one.
        """
        limit = self._services.prompt_tokens
        for plan in self._config.overview.plans(len(state.pages)):
            state.overview = plan
            if limit is None or self._fits(plan, limit - _PROMPT_TOKENS):
                return True
        return False

    def _fits(self, plan: OverviewPlan, room: int) -> bool:
        """Return whether the prompt with this overview has at most `room` tokens."""
        room -= self._config.plan_tokens(plan) + plan.sheets * _IMAGE_MARKS
        # count the texts last: for a very long document most plans fail before that
        if room < 0:
            return False
        texts = [self.text("system"), self.text("user"), *self._headings(plan)]
        last = [item for item in self._last_words() if isinstance(item, str)]
        return sum(self._services.count_tokens(text + "\n") for text in (*texts, *last)) <= room

    def _last_words(self) -> list[Line]:
        """Return the end of the prompt if the trajectory has only one turn."""
        return self._ending(1) if self.state.last_turn == 1 else []

    def _shown(self, items: Iterable[Line], turn: int) -> tuple[Part, ...]:
        """Return the parts of an observation, including its ending, and count their tokens."""
        items = [*items, *self._ending(turn)]
        self._count(items)
        return parts_of(items)

    def _ending(self, turn: int) -> list[Line]:
        """Return the end of the observation before `turn`: working memory and turns left."""
        items: list[Line] = []
        if self._config.memory.enabled and self.state.summaries:
            summaries = [{"turn": number, "text": text} for number, text in self.state.summaries]
            items.append(self.text("memory", summaries=summaries))
        left = self.state.last_turn - turn
        part = "turns_left" if left or not self._config.final_turn_notice else "final_turn"
        return [*items, self.text(part, turn=turn, left=left)]

    def _count(self, items: Iterable[Line]) -> None:
        if self._config.context_tokens is not None:
            self.state.tokens += self._cost(items) + _MESSAGE_TOKENS

    def _cost(self, items: Iterable[Line]) -> int:
        """Count the tokens of items: images according to `display`, texts by a cautious
        estimate.
        """
        return sum(
            estimated_tokens(item) + 1
            if isinstance(item, str)
            else self._config.display.tokens(item.size) + _IMAGE_MARKS
            for item in items
        )

    def _room(self, turn: int | None = None) -> int | None:
        """Return the number of tokens left for pages; `None` without a limit.

        With `turn`, the ending of the observation before that turn is subtracted.
        """
        limit = self._config.context_tokens
        if limit is None:
            return None
        rest = self._cost(self._ending(turn)) + _MESSAGE_TOKENS if turn else 0
        return limit - self._config.reserve_tokens - self.state.tokens - rest

    def _overview(self) -> Iterator[Line]:
        plan = self.state.overview
        if plan is None:
            return
        sheets = overview(plan.choose(self.state.pages), plan.style)
        for heading, sheet in zip(self._headings(plan), sheets, strict=True):
            yield heading
            yield sheet

    def _headings(self, plan: OverviewPlan) -> Iterator[str]:
        pages = plan.choose(range(self.state.first_page, self.state.last_page + 1))
        return sheet_headings(plan, pages, self.text)
