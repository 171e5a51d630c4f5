"""The environment of ALDEN (arXiv 2510.25668): search one document, fetch pages, answer."""

import asyncio
import functools
import logging
import time
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace

from docagent_rl.actions.base import Answer, Fetch, Invalid, Search
from docagent_rl.documents import PageRef
from docagent_rl.envs.base import (
    AssistantTurn,
    EndReason,
    Line,
    Observation,
    RewardTerms,
    StepResult,
    TokenTerm,
    UnknownActionError,
    parts_of,
)
from docagent_rl.envs.checks import pages_outside
from docagent_rl.envs.effects import Nothing, NothingShown
from docagent_rl.envs.services import RetrieverService
from docagent_rl.envs.shown_page import ShownPage
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.envs.views import page_view
from docagent_rl.retrieval import Hit
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.alden.actions import AldenGrammar, AldenPageForm, FetchSyntax
from docagent_rl.systems.alden.config import AldenConfig, OnFull
from docagent_rl.systems.alden.effects import Called, CallKind, Scored
from docagent_rl.systems.alden.prompt import PROMPT
from docagent_rl.systems.alden.rewards import (
    REFUSAL,
    AldenAnswerRule,
    AnswerMetric,
    DroppedCall,
    Query,
    is_numeric,
    is_refusal,
    read_query,
    repetition,
)
from docagent_rl.systems.alden.state import AldenLoggedTurn, AldenState, Result, cut_text, new_state

logger = logging.getLogger(__name__)
_MALFORMED = {"format": -1.0}


class AldenEnv(ToolEnv[AldenConfig, AldenState]):
    """One trajectory of ALDEN, in one document that the agent never sees as a whole.

    A turn is one thought and one action. A search shows the best pages with their numbers (in the
    hybrid, the best images and then the best texts), and a fetch shows one page. Both results are a
    user message inside `<result>`. An answer ends the trajectory, and so does a turn in which
    nothing can be executed. Every turn is rewarded immediately; its terms are `AldenConfig.terms`.
    In addition, repeated words of a query are penalised on their own characters.

    Validation also plays questions without gold pages. The judge is never asked.
    """

    title = "ALDEN"
    spec = PROMPT

    def set_up(self) -> None:
        """Check that both retrievers exist, rather than fail at the first search."""
        if self._config.two_rankings:
            self._services.second()

    @staticmethod
    def make_grammar(config: AldenConfig) -> AldenGrammar:
        """Return the grammar for a configuration."""
        return AldenGrammar(
            modality=config.modality, fetch_syntax=config.fetch_syntax, fetch=config.fetch
        )

    def variables(self, state: AldenState) -> dict[str, object]:
        """Return the variables that all parts of the prompt may use."""
        config = self._config
        return {
            "num_pages": len(state.pages),
            "first_page": state.pages[0],
            "last_page": state.pages[-1],
            "turns": config.max_turns,
            "fetch": config.fetch,
            "ordinal": config.fetch_syntax is FetchSyntax.ORDINAL,
            "pages_per_search": config.search.pages_per_search,
            "refusal": REFUSAL,
        }

    def new_state(self, sample: Sample) -> AldenState:
        """Return the state before the first turn (see `DocEnv.new_state`)."""
        allowed = self._config.allow_empty_gold or self._validate
        return new_state(sample, self._services.store, self._config.terms, allow_empty_gold=allowed)

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        state = self.running
        logged = self.read(state, turn)
        parsed = logged.parsed
        state.log.turns.append(logged)
        if isinstance(parsed.action, Invalid):
            logged.effect = NothingShown(Nothing.INVALID)
            return self._ended(EndReason.INVALID, _MALFORMED)
        if isinstance(parsed.action, Answer):
            return self._answer(state, logged, parsed.action)
        if logged.turn >= self._config.max_turns:
            logged.executed = False
            logged.effect = NothingShown(Nothing.NOT_EXECUTED)
            return self._ended(EndReason.TURN_LIMIT, _MALFORMED)
        began = time.perf_counter()
        match parsed.action:
            case Search() as action:
                query = read_query(turn.text, action.argument or (0, 0))
                result, values, tokens = await self._search(state, logged, action, query)
            case Fetch() as action:
                result, values, tokens = await self._fetch(state, logged, action)
            case action:
                raise UnknownActionError(self.title, action)
        logged.seconds["call"] = time.perf_counter() - began
        # a malformed turn is rewarded for its format only (section 4.2)
        if logged.parsed.fault is not None:
            values = _MALFORMED
            tokens = ()
        elif not self._charged(state):
            values = {}
            tokens = ()
        logged.image_tokens = result.tokens
        repeated = bool(result.keys) and all(key in state.shown for key in result.keys)
        logged.effect = Called(result.end, tuple(result.shown), repeated)
        state.show(result.keys, remember=self._remembered(logged))
        if result.full and self._config.image_budget.on_full is OnFull.END:
            return self._ended(EndReason.IMAGE_LIMIT, self._taken_back(state, values), tokens)
        last_call = logged.turn == self._config.max_turns - 1
        notice = [self.text("final_turn")] if self._config.final_turn_notice and last_call else []
        observation = Observation.user(*parts_of(["<result>", *result.lines, "</result>", *notice]))
        return StepResult(
            observation, terms=self._rewarded(values, tokens), record=self.record(logged)
        )

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the rollout had to end (see `DocEnv.conclude`).

        The reward of the last call is revoked (`reward.dropped_call`), except for the penalty on
        the characters of its query. The returned values replace those of the last turn; the
        returned reward is the difference.
        """
        state = self.running
        if not state.rewards:
            state.end = reason
            return RewardTerms(self._named({}))
        before = state.rewards[-1]
        values = self._taken_back(state, before.values)
        state.rewards.pop()
        terms = self._rewarded(values, before.tokens)
        state.end = reason
        return RewardTerms(terms.values, reward=terms.reward - before.reward)

    async def _search(
        self, state: AldenState, logged: AldenLoggedTurn, action: Search, query: Query
    ) -> tuple[Result, dict[str, float], tuple[TokenTerm, ...]]:
        result = await self._searched(state, action.query)
        if not result.keys:
            result.end = CallKind.NO_ROOM if result.full else CallKind.NO_PAGE
        seen = {page for page, _ in state.seen}
        values = {"search": self._config.reward.search_credit(result.pages, state.gold, seen)}
        rule = self._config.query_repetition
        tokens: tuple[TokenTerm, ...] = ()
        if rule.enabled:
            overlap, shares = repetition(query.words, state.queries, rule.overlap, rule.n)
            values["query_repetition"] = overlap
            charges = [share * overlap for share in shares]
            tokens = tuple(
                TokenTerm("query_repetition", span, value, -rule.eta)
                for span, value in zip(query.spans, charges, strict=True)
                if value
            )
        if self._remembered(logged):
            state.queries.append(query.words)
        return result, values, tokens

    async def _fetch(
        self, state: AldenState, logged: AldenLoggedTurn, action: Fetch
    ) -> tuple[Result, dict[str, float], tuple[TokenTerm, ...]]:
        form = logged.parsed.form
        if not action.pages or action.pages[0] not in state.pages:
            end = CallKind.NO_SUCH_PAGE if action.pages else CallKind.MALFORMED_FETCH
            return Result(end, [self.text(end.value)]), {"fetch_failed": 1.0}, ()
        (page,) = action.pages
        result = await self._fetched(state, page, form)
        if result.full:
            result.end = CallKind.NO_ROOM
            return result, {"fetch_failed": 1.0}, ()
        values = {
            "fetch": self._config.reward.fetch_credit(page, state.gold),
            "fetch_repetition": float((page, form) in state.seen),
        }
        return result, values, ()

    def _answer(self, state: AldenState, logged: AldenLoggedTurn, action: Answer) -> StepResult:
        score = self._config.answer_rule().score(action.text, state.references)
        if self._config.numeric_metric is AnswerMetric.CHAR_F1 and any(
            map(is_numeric, state.references)
        ):
            _warn_of_characters()
        refused = is_refusal(action.text)
        likeness = {
            m.value: AldenAnswerRule(m, m).score(action.text, state.references)
            for m in AnswerMetric
        }
        logged.effect = Scored(score=score, refused=refused, likeness=likeness)
        values = self._config.reward.answer_terms(
            score,
            refused=refused,
            answerable=state.answerable,
            refusal_is_right=any(map(is_refusal, state.references)),
        )
        return self._ended(EndReason.ANSWERED, values)

    def record(self, logged: LoggedTurn) -> TurnRecord:
        """Return the record of a turn; a malformed turn is not valid even if it was executed."""
        record = logged.record()
        fault = logged.parsed.fault
        if isinstance(logged.action, Fetch):
            form = {"form": logged.parsed.form.value}
            action = replace(record.action, arguments={**record.action.arguments, **form})
            record = replace(record, action=action)
        own = {"fault": fault.value if fault else None}
        return replace(record, valid=record.valid and fault is None, own=own)

    def _remembered(self, logged: AldenLoggedTurn) -> bool:
        return logged.parsed.fault is None or self._config.remember_malformed

    def _charged(self, state: AldenState) -> bool:
        return self._config.reward.unanswerable or state.answerable

    def _taken_back(self, state: AldenState, values: Mapping[str, float]) -> dict[str, float]:
        """Undo what the last call showed; return the terms that remain."""
        state.take_back()
        kept = {"query_repetition": values.get("query_repetition", 0.0)}
        if values.get("format", 0.0) < 0 or self._config.reward.dropped_call is DroppedCall.FORMAT:
            return {**kept, **_MALFORMED}
        fetched = isinstance(state.log.turns[-1].parsed.action, Fetch)
        return {**kept, "fetch_failed": float(fetched and self._charged(state))}

    def _rewarded(
        self, values: Mapping[str, float], tokens: tuple[TokenTerm, ...] = ()
    ) -> RewardTerms:
        reward = self._config.reward.formula.total(values)
        total = reward + sum(term.reward for term in tokens)
        terms = RewardTerms(self._named({**values, "total": total}), reward=reward, tokens=tokens)
        self.state.rewards.append(terms)
        return terms

    def _named(self, values: Mapping[str, float]) -> dict[str, float]:
        return {name: float(values.get(name, 0.0)) for name in self._config.terms}

    def _ended(
        self, reason: EndReason, values: Mapping[str, float], tokens: tuple[TokenTerm, ...] = ()
    ) -> StepResult:
        state = self.running
        terms = self._rewarded(values, tokens)
        state.end = reason
        return StepResult(None, end=reason, terms=terms, record=self.record(state.log.turns[-1]))

    async def _ranked(self, sample: Sample, query: str) -> tuple[list[Hit], list[Hit]]:
        """Return a document's best pages as images and, in the hybrid, its best pages as texts."""
        search = self._config.search
        services = self._services
        outside = pages_outside(sample, services.store)

        def ask(retriever: RetrieverService) -> Awaitable[list[Hit]]:
            return retriever.search(
                query, doc_id=sample.doc_id, top_k=search.top_k, exclude=outside
            )

        texts: list[Hit] = []
        if self._config.two_rankings:
            images, texts = await asyncio.gather(ask(services.retriever), ask(services.second()))
        else:
            images = await ask(services.retriever)
            texts = images if self._config.hybrid else []
        return images[: search.pages_per_search], texts[: search.pages_per_search]

    async def _searched(self, state: AldenState, query: str) -> Result:
        images, texts = await self._ranked(state.sample, query)
        result = Result(CallKind.PAGES)
        if images and self._config.hybrid:
            result.lines.append(self.text("image_list"))
        await self._add_images(result, state, images, label=True)
        if texts:
            result.lines.append(self.text("text_list"))
            await self._add_texts(result, state, texts, label=True, cut=True)
        if not result.lines:
            result.lines.append(self.text("no_page"))
        return result

    async def _fetched(self, state: AldenState, page: int, form: AldenPageForm) -> Result:
        """Show one existing page."""
        result = Result(CallKind.PAGE)
        hits = [Hit(PageRef(state.sample.doc_id, page), 0.0)]
        if form is AldenPageForm.IMAGE:
            await self._add_images(result, state, hits)
        else:
            await self._add_texts(result, state, hits, cut=self._config.cut_fetched_text)
        return result

    async def _add_images(
        self, result: Result, state: AldenState, hits: Sequence[Hit], *, label: bool = False
    ) -> None:
        store = self._services.store
        rule = self._config.display
        turn = len(state.log.turns)
        views = await asyncio.to_thread(
            lambda: [page_view(store.page(h.ref), rule, turn) for h in hits]
        )
        for rank, (hit, view) in enumerate(zip(hits, views, strict=True), start=1):
            if state.images >= self._config.image_budget.images:
                result.full = True
                result.lines.append(self.text("no_room"))
                return
            state.images += 1
            result.tokens += view.tokens
            shown = replace(view.shown(), rank=rank, own={"form": AldenPageForm.IMAGE.value})
            self._add(result, state, hit, AldenPageForm.IMAGE, view.image, shown, label=label)

    async def _add_texts(
        self,
        result: Result,
        state: AldenState,
        hits: Sequence[Hit],
        *,
        cut: bool,
        label: bool = False,
    ) -> None:
        texts = await asyncio.to_thread(self._read, hits, cut=cut)
        for rank, (hit, text) in enumerate(zip(hits, texts, strict=True), start=1):
            own = {"form": AldenPageForm.TEXT.value, "characters": len(text)}
            shown = ShownPage(hit.ref, rank=rank, own=own)
            self._add(
                result,
                state,
                hit,
                AldenPageForm.TEXT,
                text or self.text("no_text"),
                shown,
                label=label,
            )

    def _add(
        self,
        result: Result,
        state: AldenState,
        hit: Hit,
        form: AldenPageForm,
        line: Line,
        shown: ShownPage,
        *,
        label: bool,
    ) -> None:
        page = hit.ref.page
        result.keys.append((page, form))
        result.lines += [self.text("page_label", page=page), line] if label else [line]
        result.shown.append(replace(shown, score=float(hit.score), gold=page in state.gold))

    def _read(self, hits: Sequence[Hit], *, cut: bool) -> list[str]:
        texts = [self._services.store.page(hit.ref).text().strip() for hit in hits]
        # the text of a page must not close the surrounding result
        texts = [text.replace("</result>", "< /result>") for text in texts]
        return [cut_text(text, self._config.ocr_tokens) if cut else text for text in texts]


@functools.cache
def _warn_of_characters() -> None:
    """Warn once per process that character F1 does not distinguish numbers."""
    logger.warning(
        "answers with numbers are scored by character F1 (docagent.env.numeric_metric=char_f1, as "
        "in the paper): 42 counts as right for 24, and 1234567890, without any search, as a third "
        "right for any integer; word_f1 and anls distinguish numbers"
    )
