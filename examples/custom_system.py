"""A custom system: one search, one look at a page, one answer, and a reward for short answers.

PYTHONPATH=examples python -m verl.trainer.main_ppo --config-name base +profile=cpu \
    docagent.system=custom_system:SYSTEM

A recipe of this system begins with `defaults: [base, _self_]` and sets its keys under
`docagent.env`. Its prompt is `custom_system.yaml`, next to this file. docs/extending.md has more.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, Field

from docagent_rl.envs import (
    Answer,
    DisplayRule,
    EndReason,
    EnvState,
    ImagePart,
    LoggedTurn,
    NoNewPage,
    Outcome,
    OutcomeMetrics,
    PageRef,
    PagesShown,
    Part,
    PromptSpec,
    RewardTerms,
    Search,
    System,
    TagGrammar,
    ToolEnv,
    UnknownActionError,
    View,
    page_view,
    read_answer,
    read_search,
    references,
)
from docagent_rl.samples import Sample

TERMS = ("correct", "short", "total")
"""The numbers of the reward, as they appear in metrics: `reward/correct` and so on."""


class OneLookConfig(BaseModel, extra="forbid"):
    """The settings of the system, which a recipe sets under `docagent.env`."""

    display: DisplayRule = DisplayRule(min_pixels=12544, max_pixels=50176)
    """The sizes at which pages are shown."""
    max_image_tokens: int = 72
    """Maximum number of visual tokens in a trajectory; the context must have room for them."""
    brevity: float = Field(0.1, ge=0, le=1)
    """The share of the reward that depends on the shortness of the answer."""

    @property
    def prompt(self) -> str:
        """The prompt file; a property, so that recipes need no path."""
        return str(Path(__file__).with_suffix(".yaml"))

    @property
    def assistant_turns(self) -> int:
        """Maximum number of turns in a trajectory: one to search, one to answer."""
        return 2

    @property
    def max_images(self) -> int:
        """Maximum number of images in a trajectory: one page."""
        return 1


@dataclass(slots=True)
class OneLookState(EnvState):
    """The state of a trajectory: `EnvState` (question, turns, reward, end) and the answer."""

    answer: str = ""

    def metrics(self) -> dict[str, float]:
        """Return the trajectory's metrics: the terms of its reward, and counts of its turns."""
        return self.common_metrics(TERMS)


class OneLookEnv(ToolEnv[OneLookConfig, OneLookState]):
    """The environment of one trajectory.

    `ToolEnv` parses each turn with the grammar, tells the policy what is wrong with an invalid one,
    and ends the trajectory after an answer or the last turn. The rest is defined here: `act`
    carries out a search, `score` scores an answer, and `settle` computes the reward.
    """

    title = "one look"
    # a prompt file that lacks a part, or uses another variable, is refused before the run starts
    spec = PromptSpec(
        required=frozenset({"user", "feedback", "no_page"}),
        variables=frozenset({"question", "reason"}),
        shown=frozenset({"question"}),
    )

    @staticmethod
    def make_grammar(config: OneLookConfig) -> TagGrammar:
        """Return the grammar of a turn: `<search>...</search>` or `<answer>...</answer>`."""
        return TagGrammar({"search": read_search, "answer": read_answer})

    def new_state(self, sample: Sample) -> OneLookState:
        """Return the state before the first turn."""
        return OneLookState(sample)

    def variables(self, state: OneLookState) -> dict[str, object]:
        """Return the prompt's variables in addition to the question: none."""
        return {}

    async def act(self, state: OneLookState, logged: LoggedTurn) -> Sequence[Part]:
        """Carry out a search, and return what the policy sees next."""
        if not isinstance(logged.action, Search):
            # the only other action is an answer, which goes to `score`
            raise UnknownActionError(self.title, logged.action)

        hits = await self.search(logged, logged.action.query, doc_id=state.sample.doc_id, top_k=1)
        if not hits:
            logged.effect = NoNewPage(hits=0)
            return [self.part("no_page")]
        # reading a page opens files, which must not block the event loop
        view = await asyncio.to_thread(self._view_of, hits[0].ref, logged.turn)

        # the viewer, the evidence funnel and the filters of `collect` rely on this record
        logged.effect = PagesShown(pages=(view.shown(),), hits=len(hits))
        logged.image_tokens = view.tokens
        return [ImagePart(view.image)]

    async def score(self, state: OneLookState, logged: LoggedTurn, action: Answer) -> Outcome:
        """Return how right an answer is, by the judge of the configuration (`docagent.judge`)."""
        state.answer = action.text
        return await self.judge(logged, references(state.sample), action.text)

    def final_terms(self, end: EndReason, outcome: Outcome) -> RewardTerms:
        """End the trajectory and return its reward; one without an answer gets nothing."""
        state = self.running
        # the score of the answer, or 0 if there is no answer
        correct = outcome.term
        # one word is worth 1/2, two words are worth 1/3, and so on
        short = 0.0
        if end is EndReason.ANSWERED:
            short = 1 / (1 + len(state.answer.split()))

        brevity = self._config.brevity
        total = (1 - brevity) * correct + brevity * short
        return state.finish(end, {"correct": correct, "short": short, "total": total})

    def _view_of(self, page: PageRef, turn: int) -> View:
        """Read a page from the store, and return it in the size in which the policy sees it."""
        return page_view(self._services.store.page(page), self._config.display, turn)


SYSTEM = System(
    name="one_look",
    summary="one search, one look, one answer",
    config_type=OneLookConfig,
    env=OneLookEnv,
    make_grammar=OneLookEnv.make_grammar,
    prompt_spec=OneLookEnv.spec,
    # a trajectory is right if this number is at least one half
    outcome_metrics=OutcomeMetrics(outcome="reward/correct"),
    # training is refused if `docagent.judge` names no judge
    judged=True,
)
