"""The environment that systems share: read a turn, carry out its action, settle the trajectory."""

import asyncio
import time
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar

from docagent_rl.actions.base import Answer, Grammar
from docagent_rl.actions.coordinates import CropError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import PageRef
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
from docagent_rl.envs.checks import checked_gold
from docagent_rl.envs.outcome import NO_ANSWER, UNJUDGED, Outcome
from docagent_rl.envs.services import EnvServices
from docagent_rl.envs.turn_log import LoggedTurn, RefusedError
from docagent_rl.envs.views import SearchScope, View, page_view
from docagent_rl.retrieval import Hit
from docagent_rl.samples.sample import Sample


class ToolEnv(DocEnv[StateT]):
    """The environment of a system whose turns each hold one action of a grammar.

    A system writes `new_state`, `make_grammar` and `variables`; where the reward comes with the last turn
    also `act`, `score` and `settle`, otherwise its own `step` and `conclude`.

    `prompt` has the parts of `spec`, by default the package's; `validate` plays for an evaluation. It reads
    `assistant_turns` of the configuration, `prompt` where none is given, `allow_empty_gold` in `gold_pages`,
    and `reward.formula` in `judge` where the form decides whether an answer is judged.
    """

    title: ClassVar[str]
    """The name of the system in its paper."""
    spec: ClassVar[PromptSpec]
    """The parts and variables of its prompt file."""

    def __init__(
        self,
        config: Any,
        services: EnvServices,
        prompt: PromptTemplate | None = None,
        *,
        validate: bool = False,
    ) -> None:
        self._config = config
        self._services = services
        self._validate = validate
        self._prompt = prompt or load_prompt(config.prompt, self.spec)
        # a system's grammar returns turns of its own
        self._grammar: Any = self.make_grammar(config)
        self.set_up()

    def set_up(self) -> None:
        """Make what a system needs besides; raises `UserError` where a service is missing."""

    @staticmethod
    @abstractmethod
    def make_grammar(config: Any) -> Grammar:
        """Return the grammar of a configuration."""

    @abstractmethod
    def variables(self, state: StateT) -> Mapping[str, Any]:
        """Return the variables that every part of the prompt file may name, beside the question."""

    def show_prompt(self, state: StateT) -> Observation:
        """Return the system and the user message, texts alone (see `DocEnv.show_prompt`)."""
        roles = [role for role in (Role.SYSTEM, Role.USER) if role.value in self._prompt]
        return Observation(tuple(Message(role, (self.part(role.value),)) for role in roles))

    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn (see `DocEnv.step`)."""
        state = self.running
        logged = self.read(state, turn)
        end, outcome = self.limit(state, logged), NO_ANSWER
        if isinstance(logged.action, Answer):
            # what a last turn says beside its answer counts too
            state.log.turns.append(logged)
            end, outcome = EndReason.ANSWERED, await self.score(state, logged, logged.action)
        elif end is not None:
            logged.executed, logged.effect = False, {"kind": "not_executed"}
            state.log.turns.append(logged)
        else:
            parts = await self.execute(state, logged, turn.text)
            state.log.turns.append(logged)
            return StepResult(Observation.user(*parts), info=self.info(logged))
        terms = self.settle(end, outcome)
        return StepResult(None, end=end, terms=terms, info=self.info(logged))

    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the rollout had to end (see `DocEnv.conclude`)."""
        state = self.running
        if state.log.turns:
            state.take_back()
        return self.settle(reason, NO_ANSWER)

    def read(self, state: StateT, turn: AssistantTurn) -> LoggedTurn:
        """Parse a turn, before anything it asks for is done."""
        state.begin_turn()
        return LoggedTurn(len(state.log.turns) + 1, self._grammar.parse(turn.text, turn.stop))

    def limit(self, state: StateT, logged: LoggedTurn) -> EndReason | None:
        """Return why nothing but an answer is carried out in this turn, if so."""
        return EndReason.TURN_LIMIT if logged.turn >= self._config.assistant_turns else None

    def info(self, logged: LoggedTurn) -> dict[str, Any]:
        """Return the entry of a turn in its trajectory (`StepResult.info`)."""
        return logged.to_dict()

    async def execute(self, state: StateT, logged: LoggedTurn, text: str) -> Sequence[Part]:
        """Return what a turn shows: what its action leads to, or what is wrong with it."""
        if logged.invalid is None:
            try:
                return await self.act(state, logged)
            except (RefusedError, CropError, DisplayError) as error:
                logged.refuse(str(error))
        return [self.correction(logged, text)]

    async def act(self, state: StateT, logged: LoggedTurn) -> Sequence[Part]:
        """Carry out a valid action, or raise `RefusedError`; return what it shows."""
        raise NotImplementedError

    def correction(self, logged: LoggedTurn, text: str) -> TextPart:
        """Return what tells the policy what is wrong with its turn."""
        return self.part("feedback", reason=self.feedback(logged))

    async def score(self, state: StateT, logged: LoggedTurn, action: Answer) -> Outcome:
        """Return how right an answer is, and note its effect."""
        raise NotImplementedError

    def settle(self, end: EndReason, outcome: Outcome) -> RewardTerms:
        """End the trajectory and return its reward."""
        raise NotImplementedError

    def part(self, name: str, **variables: Any) -> TextPart:
        """Return a part of the prompt file, filled in."""
        return TextPart(self.text(name, **variables))

    def text(self, name: str, **variables: Any) -> str:
        """Return the text of a part of the prompt file, filled in."""
        state = self.state
        known = {"question": state.sample.question, **self.variables(state)}
        return self._prompt.render(name, **{**known, **variables})

    def feedback(self, logged: LoggedTurn) -> str:
        """Return what is wrong with a turn, and note that it leads to feedback; there must be something."""
        if logged.invalid is None:
            raise UnknownActionError(self.title, logged.action)
        logged.effect = {"kind": "feedback"}
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
        """Ask the retriever (see `RetrieverService.search`) and note how long it took."""
        began = time.perf_counter()
        hits = await self._services.retriever.search(query, doc_id=doc_id, top_k=top_k, exclude=exclude)
        logged.seconds["search"] = time.perf_counter() - began
        return hits

    async def judge(
        self, logged: LoggedTurn, references: Sequence[str], answer: str, *, fmt: float | None = None
    ) -> Outcome:
        """Return the outcome of an answer by the judge, and note how long that took.

        A blank answer is none, and wrong without a question to the judge. Given the format term, the judge is
        asked only where its score can change the reward: otherwise the answer is unjudged. Validation asks
        about every answer, whatever the form.
        """
        if not answer:
            logged.effect = {"kind": "answer", "judged": False}
            return NO_ANSWER
        judged = self._validate or fmt is None or self._config.reward.formula.opens({"format": fmt})
        logged.effect = {"kind": "answer", "judged": judged}
        if not judged:
            return UNJUDGED
        began = time.perf_counter()
        score = await self._services.judge.judge(self.state.sample.question, references, answer)
        logged.seconds["judge"] = time.perf_counter() - began
        return Outcome.of(score)

    def gold_pages(self, sample: Sample) -> frozenset[PageRef]:
        """Return the gold pages of a question (`checked_gold`); validation plays questions without any."""
        allowed = self._config.allow_empty_gold or self._validate
        return checked_gold(sample, self._services.store, allow_empty=allowed)

    async def search_pages(
        self, logged: LoggedTurn, query: str, shown: Collection[PageRef], most: int
    ) -> list[View]:
        """Return views of the best `most` pages that a search finds beside those `shown`, and note them.

        The state has the `gold` pages.
        """
        state: Any = self.state
        search, store = self._config.search, self._services.store
        doc_id = state.sample.doc_id if search.scope is SearchScope.DOCUMENT else None
        hits = await self.search(logged, query, doc_id=doc_id, top_k=search.top_k)
        ranked = new_hits(hits, shown)[:most]
        logged.effect = {"kind": "pages" if ranked else "no_new_page", "hits": len(hits)}
        if not ranked:
            return []
        rule, turn = self._config.display, logged.turn
        # the first look at a document reads its manifest
        views = await asyncio.to_thread(lambda: [page_view(store.page(h.ref), rule, turn) for _, h in ranked])
        logged.effect["pages"] = [
            {**view.to_dict(), "rank": rank, "score": float(hit.score), "gold": hit.ref in state.gold}
            for view, (rank, hit) in zip(views, ranked, strict=True)
        ]
        logged.image_tokens = sum(view.tokens for view in views)
        return views


def new_hits(hits: Iterable[Hit], shown: Collection[PageRef]) -> list[tuple[int, Hit]]:
    """Return hits with their ranks from 1, each page once and without those that were shown."""
    ranked: dict[PageRef, tuple[int, Hit]] = {}
    for rank, hit in enumerate(hits, start=1):
        if hit.ref not in shown:
            ranked.setdefault(hit.ref, (rank, hit))
    return list(ranked.values())
