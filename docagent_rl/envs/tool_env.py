"""The base of most environments: parse a turn, execute its action, reward the trajectory."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, Protocol, TypeVar

from docagent_rl.actions.base import Answer, Grammar
from docagent_rl.actions.coordinates import CropError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import PageRef
from docagent_rl.documents.display import DisplayRule
from docagent_rl.documents.settings import DisplayError
from docagent_rl.envs.base import (
    AssistantTurn,
    DocEnv,
    EndReason,
    Message,
    Observation,
    Part,
    RewardTerms,
    Role,
    StateT,
    StepResult,
    TextPart,
    UnknownActionError,
)
from docagent_rl.envs.checks import checked_gold, pages_outside
from docagent_rl.envs.effects import Answered, NoNewPage, Nothing, NothingShown, PagesShown
from docagent_rl.envs.outcome import NO_ANSWER, UNJUDGED, Outcome
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import LoggedTurn, RefusedError
from docagent_rl.envs.turn_record import TurnRecord
from docagent_rl.envs.views import SearchScope, View, page_view
from docagent_rl.retrieval import Hit
from docagent_rl.samples.sample import Sample


class ToolConfig(Protocol):
    """The part of the configuration that a `ToolEnv` uses, as fields or properties."""

    @property
    def prompt(self) -> str:
        """The prompt file: the name of a packaged prompt, or a path."""
        ...

    @property
    def assistant_turns(self) -> int:
        """The maximum number of turns of a trajectory."""
        ...


ConfigT = TypeVar("ConfigT", bound=ToolConfig)


class ToolEnv(DocEnv[StateT], Generic[ConfigT, StateT]):
    """The environment of a system in which each turn contains one action of a grammar.

    Subclass `ToolEnv[MyConfig, MyState]` and implement `new_state`, `make_grammar` and `variables`.
    If only the last turn is rewarded, also implement `act`, `score` and `final_terms`; otherwise
    override `step` and `conclude`.

    `prompt` has the parts of `spec`; the packaged prompt is the default. `validate` is true in
    validation and evaluation.
    """

    title: ClassVar[str]
    """The name of the system in its paper."""
    spec: ClassVar[PromptSpec]
    """The parts and variables of its prompt file."""

    def __init__(
        self,
        config: ConfigT,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config = config
        self._services = services
        self._validate = validate
        self._prompt = prompt or load_prompt(config.prompt, self.spec)
        self._grammar: Grammar = self.make_grammar(config)
        self.set_up()

    def set_up(self) -> None:
        """Create what else a system needs; raises `UserError` if a service is missing."""

    @staticmethod
    @abstractmethod
    def make_grammar(config: ConfigT) -> Grammar:
        """Return the grammar for a configuration."""

    @abstractmethod
    def variables(self, state: StateT) -> Mapping[str, object]:
        """Return the variables that all parts of the prompt file may use besides `question`."""

    def show_prompt(self, state: StateT) -> Observation:
        """Return the system and the user message without images (see `DocEnv.show_prompt`)."""
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return Observation(tuple(Message(role, (self.part(role.value),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        state = self.running
        logged = self.read(state, turn)
        end = self.limit(state, logged)
        outcome = NO_ANSWER
        if isinstance(logged.action, Answer):
            # log the turn first: the score may depend on other parts of it than the answer
            state.log.turns.append(logged)
            end = EndReason.ANSWERED
            outcome = await self.score(state, logged, logged.action)
        elif end is not None:
            logged.executed = False
            logged.effect = NothingShown(Nothing.NOT_EXECUTED)
            state.log.turns.append(logged)
        else:
            parts = await self.execute(state, logged, turn.text)
            state.log.turns.append(logged)
            return StepResult(Observation.user(*parts), record=self.record(logged))
        terms = self.final_terms(end, outcome)
        return StepResult(None, end=end, terms=terms, record=self.record(logged))

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the rollout had to end (see `DocEnv.conclude`)."""
        state = self.running
        if state.log.turns:
            state.take_back()
        return self.final_terms(reason, NO_ANSWER)

    def read(self, state: StateT, turn: AssistantTurn) -> LoggedTurn:
        """Parse a turn without executing its action."""
        state.begin_turn()
        return LoggedTurn(len(state.log.turns) + 1, self._grammar.parse(turn.text, turn.stop))

    def limit(self, state: StateT, logged: LoggedTurn) -> EndReason | None:
        """Return the limit that was reached, so that only an answer is executed, or `None`."""
        return EndReason.TURN_LIMIT if logged.turn >= self._config.assistant_turns else None

    def record(self, logged: LoggedTurn) -> TurnRecord:
        """Return the record of a turn for its trajectory (`StepResult.record`)."""
        return logged.record()

    async def execute(self, state: StateT, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """Execute a turn; return the result of its action, or feedback on what is wrong with it."""
        if logged.invalid is None:
            try:
                return await self.act(state, logged)
            except (RefusedError, CropError, DisplayError) as error:
                logged.refuse(str(error))
        return [self.correction(logged, text)]

    async def act(self, state: StateT, logged: LoggedTurn) -> Sequence[Part]:
        """Execute a valid action and return what it shows; raises `RefusedError` if it cannot."""
        raise NotImplementedError

    def correction(self, logged: LoggedTurn, text: str) -> TextPart:
        """Return the feedback that tells the policy what is wrong with its turn."""
        return self.part("feedback", reason=self.feedback(logged))

    async def score(self, state: StateT, logged: LoggedTurn, action: Answer) -> Outcome:
        """Return the outcome of an answer, and record the effect of its turn."""
        raise NotImplementedError

    def final_terms(self, end: EndReason, outcome: Outcome) -> RewardTerms:
        """End the trajectory and return its reward."""
        raise NotImplementedError

    def part(self, name: str, **variables: object) -> TextPart:
        """Render a part of the prompt file as a message part."""
        return TextPart(self.text(name, **variables))

    def text(self, name: str, **variables: object) -> str:
        """Render a part of the prompt file as text."""
        state = self.state
        known = {"question": state.sample.question, **self.variables(state)}
        return self._prompt.render(name, **{**known, **variables})

    def feedback(self, logged: LoggedTurn) -> str:
        """Return what is wrong with an invalid turn, and record that it leads to feedback.

        Raises `UnknownActionError` if the turn is valid.
        """
        if logged.invalid is None:
            raise UnknownActionError(self.title, logged.action)
        logged.effect = NothingShown(Nothing.FEEDBACK)
        return logged.invalid.detail

    async def search(
        self,
        logged: LoggedTurn,
        query: str,
        *,
        doc_id: str | None,
        top_k: int,
        exclude: Collection[PageRef] = (),
    ) -> list[Hit]:
        """Call the retriever (see `RetrieverService.search`) and record how long it took.

        Besides `exclude`, the pages outside the question's window are left out (`pages_outside`).
        """
        outside = pages_outside(self.state.sample, self._services.store)
        began = time.perf_counter()
        hits = await self._services.retriever.search(
            query, doc_id=doc_id, top_k=top_k, exclude=outside.union(exclude)
        )
        logged.seconds["search"] = time.perf_counter() - began
        return hits

    async def judge(
        self, logged: LoggedTurn, references: Sequence[str], answer: str, *, rewarded: bool = True
    ) -> Outcome:
        """Ask the judge for the outcome of an answer, and record how long it took.

        A blank answer counts as no answer: it is wrong, and the judge is not asked. If the score
        cannot change the reward (`rewarded` is false), the judge is not asked either and the answer
        is unjudged, except in validation, where every answer is judged.
        """
        if not answer:
            logged.effect = Answered(judged=False)
            return NO_ANSWER
        judged = self._validate or rewarded
        logged.effect = Answered(judged=judged)
        if not judged:
            return UNJUDGED
        began = time.perf_counter()
        score = await self._services.judge.judge(self.state.sample.question, references, answer)
        logged.seconds["judge"] = time.perf_counter() - began
        return Outcome.of(score)

    def gold_pages(self, sample: Sample, *, allow_empty: bool) -> frozenset[PageRef]:
        """Return the gold pages of a question (`checked_gold`); validation accepts none at all."""
        return checked_gold(sample, self._services.store, allow_empty=allow_empty or self._validate)

    async def search_pages(
        self,
        logged: LoggedTurn,
        query: str,
        *,
        scope: SearchScope,
        top_k: int,
        most: int,
        display: DisplayRule,
        shown: Collection[PageRef],
        gold: Collection[PageRef],
    ) -> list[View]:
        """Search; return views of the new pages, and record them as the effect of the turn.

        Args:
            logged: the turn.
            query: the query.
            scope: where to search.
            top_k: the number of hits to request.
            most: the maximum number of pages to show, the best of those not in `shown`.
            display: the rule for the sizes at which pages are shown.
            shown: pages to leave out, since they were shown before.
            gold: pages with evidence; they are only recorded, never revealed to the policy.
        """
        store = self._services.store
        doc_id = self.state.sample.doc_id if scope is SearchScope.DOCUMENT else None
        hits = await self.search(logged, query, doc_id=doc_id, top_k=top_k)
        ranked = new_hits(hits, shown)[:most]
        if not ranked:
            logged.effect = NoNewPage(len(hits))
            return []
        # in a thread, since the first access to a document reads its manifest
        views = await asyncio.to_thread(
            lambda: [page_view(store.page(hit.ref), display, logged.turn) for _, hit in ranked]
        )
        pages = [
            replace(view.shown(), rank=rank, score=float(hit.score), gold=hit.ref in gold)
            for view, (rank, hit) in zip(views, ranked, strict=True)
        ]
        logged.effect = PagesShown(tuple(pages), len(hits))
        logged.image_tokens = sum(view.tokens for view in views)
        return views


def new_hits(hits: Iterable[Hit], shown: Collection[PageRef]) -> list[tuple[int, Hit]]:
    """Return hits on distinct pages that were not shown yet, with their ranks from 1."""
    ranked: dict[PageRef, tuple[int, Hit]] = {}
    for rank, hit in enumerate(hits, start=1):
        if hit.ref not in shown:
            ranked.setdefault(hit.ref, (rank, hit))
    return list(ranked.values())
