"""The environment of ALDEN (arXiv 2510.25668): search a long document, fetch pages by number, answer."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping
from typing import Any

from docagent_rl.actions.base import Answer, Fetch, Invalid, Search
from docagent_rl.base.prompts import PromptSpec, PromptTemplate
from docagent_rl.envs.base import (
    AssistantTurn,
    EndReason,
    Observation,
    RewardTerms,
    StepResult,
    TokenTerm,
    UnknownActionError,
)
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.tool_env import ToolEnv
from docagent_rl.envs.turn_log import LoggedTurn
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.alden.actions import AldenGrammar, FetchSyntax
from docagent_rl.systems.alden.config import AldenConfig, OnFull
from docagent_rl.systems.alden.rewards import (
    REFUSAL,
    AnswerMetric,
    AnswerRule,
    DroppedCall,
    Query,
    is_numeric,
    is_refusal,
    read_query,
    repetition,
)
from docagent_rl.systems.alden.state import (
    AldenLoggedTurn,
    AldenState,
    Result,
    ResultBuilder,
    new_state,
    parts,
)

logger = logging.getLogger(__name__)
_MALFORMED = {"format": -1.0}


class AldenEnv(ToolEnv[AldenState]):
    """One trajectory of ALDEN, in one document that the agent never sees as a whole.

    A turn is one thought and one action. A search shows the best pages with their numbers, with two
    modalities the best images and then the best texts; a fetch shows one page; both come as a user message
    inside `<result>`. An answer ends the trajectory, and so does a turn in which nothing can be executed.
    Every turn is rewarded when it is made; its terms are `AldenConfig.terms`, and repeated words of a query
    are charged on their own characters besides.

    Validation also plays questions without gold pages. The judge is never asked.
    """

    title = "ALDEN"
    spec = PromptSpec(
        required=frozenset(
            {"system", "user", "page_label", "image_list", "text_list", "reminder", "final_turn"}
            | {"no_page", "no_text", "no_room", "no_such_page", "malformed_fetch"}
        ),
        variables=frozenset(
            {"question", "num_pages", "turns", "fetch", "ordinal", "pages_per_search", "refusal", "page"}
        ),
        shown=frozenset({"question"}),
    )

    def __init__(
        self,
        config: AldenConfig,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        super().__init__(config, services, prompt, validate=validate)
        if config.two_rankings:
            services.second()  # better here than at the first search
        self._builder = ResultBuilder(config, services, self.text)

    @staticmethod
    def make_grammar(config: AldenConfig) -> AldenGrammar:
        """Return the grammar of a configuration."""
        return AldenGrammar(
            modality=config.modality,
            fetch_syntax=config.fetch_syntax,
            fetch=config.fetch,
            lenient=config.released_lenient_regex,
        )

    def variables(self, state: AldenState) -> dict[str, Any]:
        """Return what every part of the prompt may name."""
        config = self._config
        return {
            "num_pages": state.num_pages,
            "turns": config.max_turns,
            "fetch": config.fetch,
            "ordinal": config.fetch_syntax is FetchSyntax.ORDINAL,
            "pages_per_search": config.search.pages_per_search,
            "refusal": REFUSAL,
        }

    def new_state(self, sample: Sample) -> AldenState:
        """Return the state before the first turn (see `DocEnv.new_state`)."""
        allowed = self._config.allow_empty_gold or self._validate
        return new_state(sample, self._services.store, allow_empty_gold=allowed)

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        state = self.running
        parsed = self._grammar.parse(turn.text, turn.stop)
        logged = AldenLoggedTurn(len(state.log.turns) + 1, parsed)
        state.open_turn(logged)
        if isinstance(parsed.action, Invalid):
            logged.effect = {"kind": "invalid"}
            return self._ended(EndReason.INVALID, _MALFORMED)
        if isinstance(parsed.action, Answer):
            return self._answer(state, logged, parsed.action)
        if logged.turn >= self._config.max_turns:
            logged.executed, logged.effect = False, {"kind": "not_executed"}
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
        # of a malformed turn the format alone counts (section 4.2)
        if logged.parsed.fault is not None:
            values, tokens = _MALFORMED, ()
        elif not self._charged(state):
            values, tokens = {}, ()
        logged.image_tokens = result.tokens
        repeated = bool(result.keys) and all(key in state.shown for key in result.keys)
        logged.effect = {**logged.effect, "repeated": repeated}
        state.show(result.keys, remember=self._remembered(logged))
        if result.full and self._config.image_budget.on_full is OnFull.END:
            return self._ended(EndReason.IMAGE_LIMIT, self._taken_back(state, values), tokens)
        last_call = logged.turn == self._config.max_turns - 1
        notice = [self.text("final_turn")] if self._config.final_turn_notice and last_call else []
        observation = Observation.user(*parts(["<result>", *result.lines, "</result>", *notice]))
        return StepResult(observation, terms=self._rewarded(values, tokens), info=self.info(logged))

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the rollout had to end (see `DocEnv.conclude`).

        What the last call earned is taken back (`reward.dropped_call`), except what its query was charged on
        its own characters. The values returned replace those of the last turn; the reward is the difference.
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

    def metrics(self) -> dict[str, float]:
        """Return numbers of the trajectory by name (see `AldenState.metrics`)."""
        return self.state.metrics(self._config.terms)

    async def _search(
        self, state: AldenState, logged: AldenLoggedTurn, action: Search, query: Query
    ) -> tuple[Result, dict[str, float], tuple[TokenTerm, ...]]:
        result = await self._builder.searched(state, action.query)
        kind = "pages" if result.keys else "no_room" if result.full else "no_page"
        logged.effect = {"kind": kind, "pages": result.described}
        seen = {page for page, _ in state.seen}
        values = {"search": self._config.reward.search_credit(result.pages, state.gold, seen)}
        rule = self._config.query_repetition
        tokens: tuple[TokenTerm, ...] = ()
        if rule.enabled:
            repeated = repetition(query.words, state.queries, rule.overlap, rule.n)
            values["query_repetition"] = repeated.overlap
            charges = [share * repeated.overlap for share in repeated.shares]
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
        if not action.pages or action.pages[0] > state.num_pages:
            kind = "no_such_page" if action.pages else "malformed_fetch"
            logged.effect = {"kind": kind}
            return Result([self.text(kind)]), {"fetch_failed": 1.0}, ()
        (page,) = action.pages
        result = await self._builder.fetched(state, page, form)
        logged.effect = {"kind": "no_room" if result.full else "page", "pages": result.described}
        if result.full:
            return result, {"fetch_failed": 1.0}, ()
        values = {
            "fetch": self._config.reward.fetch_credit(page, state.gold),
            "fetch_repetition": float((page, form) in state.seen),
        }
        return result, values, ()

    def _answer(self, state: AldenState, logged: AldenLoggedTurn, action: Answer) -> StepResult:
        score = self._config.answer_rule().score(action.text, state.references)
        if self._config.numeric_metric is AnswerMetric.CHAR_F1 and any(map(is_numeric, state.references)):
            _warn_of_characters()
        refused = is_refusal(action.text)
        likeness = {m.value: AnswerRule(m, m).score(action.text, state.references) for m in AnswerMetric}
        logged.effect = {"kind": "answer", "score": score, "refused": refused, **likeness}
        values = self._config.reward.answer_terms(
            score,
            refused=refused,
            answerable=state.answerable,
            refusal_is_right=any(map(is_refusal, state.references)),
        )
        return self._ended(EndReason.ANSWERED, values)

    def info(self, logged: LoggedTurn) -> dict[str, Any]:
        """Return the entry of a turn; a malformed one is not valid, although its call was executed."""
        info, fault = logged.to_dict(), logged.parsed.fault
        if isinstance(logged.action, Fetch):
            info["action"]["form"] = logged.parsed.form.value
        return {**info, "valid": info["valid"] and fault is None, "fault": fault.value if fault else None}

    def _remembered(self, logged: AldenLoggedTurn) -> bool:
        return logged.parsed.fault is None or self._config.remember_malformed

    def _charged(self, state: AldenState) -> bool:
        return self._config.reward.unanswerable or state.answerable

    def _taken_back(self, state: AldenState, values: Mapping[str, float]) -> dict[str, float]:
        """Unshow what the last call showed; return the terms that remain of it."""
        state.take_back()
        kept = {"query_repetition": values.get("query_repetition", 0.0)}
        if values.get("format", 0.0) < 0 or self._config.reward.dropped_call is DroppedCall.FORMAT:
            return {**kept, **_MALFORMED}
        fetched = isinstance(state.log.turns[-1].parsed.action, Fetch)
        return {**kept, "fetch_failed": float(fetched and self._charged(state))}

    def _rewarded(self, values: Mapping[str, float], tokens: tuple[TokenTerm, ...] = ()) -> RewardTerms:
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
        return StepResult(None, end=reason, terms=terms, info=self.info(state.log.turns[-1]))


@functools.cache
def _warn_of_characters() -> None:
    """Warn once a process that characters cannot tell numbers apart."""
    logger.warning(
        "answers that hold numbers are scored by characters (docagent.env.numeric_metric=char_f1, as in the "
        "paper): 42 is right for 24, and 1234567890, without a search, a third right for any whole number; "
        "word_f1 and anls tell them apart"
    )
