"""The interface of environments: messages, turns and rewards, independent of tokens and of verl."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Generic, TypeVar, cast

from docagent_rl.actions.base import Action, Span, StopCause
from docagent_rl.envs.images import Picture
from docagent_rl.envs.outcome import Outcome
from docagent_rl.envs.turn_log import TurnLog
from docagent_rl.envs.turn_record import NO_RECORD, TurnRecord, WrittenAnswer
from docagent_rl.rewards.custom.function import RewardFunction
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of text in a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image in a message."""

    image: Picture


Part = TextPart | ImagePart


Line = str | Picture
"""A line of text or an image in a message."""


def parts_of(lines: Iterable[Line]) -> tuple[Part, ...]:
    """Convert lines and images to the parts of a message, separated by line breaks."""
    parts: list[Part] = []
    text = ""
    for line in lines:
        if isinstance(line, str):
            text += line + "\n"
            continue
        if text:
            parts.append(TextPart(text))
        parts.append(ImagePart(line))
        text = "\n"
    if text.strip():
        parts.append(TextPart(text.rstrip("\n")))
    return tuple(parts)


class Role(Enum):
    """The speaker of a message."""

    SYSTEM = "system"
    USER = "user"
    TOOL = "tool"


@dataclass(frozen=True, slots=True)
class Message:
    """One chat message that the policy did not write."""

    role: Role
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Observation:
    """The messages that the policy sees before its next turn.

    The first observation is the prompt; later ones usually contain a single user message.
    """

    messages: tuple[Message, ...]
    fresh: bool = False
    """Start a new context with these messages instead of continuing the old one.

    Every context becomes a separate training row; all rows of a trajectory share its reward.
    """

    @property
    def images(self) -> tuple[Picture, ...]:
        """The images, in the order of their placeholders."""
        return tuple(p.image for m in self.messages for p in m.parts if isinstance(p, ImagePart))

    @classmethod
    def user(cls, *parts: Part) -> Observation:
        """Return one user message."""
        return cls((Message(Role.USER, parts),))


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """One sampled turn: the decoded text without special tokens, and why sampling stopped."""

    text: str
    stop: StopCause = StopCause.END_OF_TURN


@dataclass(frozen=True, slots=True)
class TokenTerm:
    """A reward term on the tokens that cover the characters `span` of a turn, split evenly.

    `weight` is the factor of the value in the reward; it is negative for a penalty.
    """

    name: str
    span: Span
    value: float
    weight: float = 1.0

    @property
    def reward(self) -> float:
        """The weighted value."""
        return self.weight * self.value


@dataclass(frozen=True, slots=True)
class RewardTerms:
    """The named, unweighted reward terms of one turn, all of which are logged.

    `reward` is the weighted reward of the turn, which is assigned to its last sampled token.
    `tokens` are assigned to tokens within the turn, in addition to `reward`.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    reward: float = 0.0
    tokens: tuple[TokenTerm, ...] = ()


class EndReason(Enum):
    """The reason why a trajectory ended."""

    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    CONTEXT_FULL = "context_full"
    """The next observation, or one more turn, did not fit."""
    FINISHED = "finished"
    """The policy finished its part; another model answers."""
    INVALID = "invalid"
    """A turn was invalid, which the system does not tolerate."""
    IMAGE_LIMIT = "image_limit"
    """The context contains the maximum number of images."""

    @property
    def complete(self) -> bool:
        """Return whether the policy itself ended the trajectory, with a valid action."""
        return self in (EndReason.ANSWERED, EndReason.FINISHED)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a turn: its reward, and the next observation or why the trajectory ended.

    `record` is stored in the trajectory: the turn's action, its validity and its effect.
    """

    observation: Observation | None
    end: EndReason | None = None
    terms: RewardTerms = field(default_factory=RewardTerms)
    record: TurnRecord = NO_RECORD

    def __post_init__(self) -> None:
        if (self.observation is None) == (self.end is None):
            raise ValueError("a step needs either an observation or an end, and not both")

    @property
    def done(self) -> bool:
        """Return whether the trajectory has ended, so that no further turn follows."""
        return self.end is not None


@dataclass(slots=True)
class EnvState:
    """The state of one trajectory; systems add the fields that they need.

    `terms` is the reward, for systems that reward only the last turn. `end` is `None` while the
    trajectory is running.
    """

    shown_by_turn: ClassVar[tuple[str, ...]] = ()
    """Fields to restore if the observation of a turn is dropped before the policy sees it."""
    sample: Sample
    log: TurnLog = field(default_factory=TurnLog, kw_only=True)
    terms: RewardTerms = field(default_factory=RewardTerms, kw_only=True)
    end: EndReason | None = field(default=None, kw_only=True)
    _before: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def begin_turn(self) -> None:
        """Save the fields in `shown_by_turn` before a turn changes them."""
        self._before = {name: copy(getattr(self, name)) for name in self.shown_by_turn}

    def take_back(self) -> None:
        """Restore the state from before the last turn, whose observation was never shown."""
        for name, value in self._before.items():
            setattr(self, name, value)
        self.log.turns[-1].dropped = True

    def finish(self, end: EndReason, values: Mapping[str, float]) -> RewardTerms:
        """End the trajectory and return its terms; the value `total` is the reward."""
        self.end = end
        self.terms = RewardTerms(values, reward=values["total"])
        return self.terms

    def common_metrics(self, terms: Iterable[str]) -> dict[str, float]:
        """Return the metrics that all systems share.

        These are `reward/<term>` for each of `terms`, the metrics of the turn log, `finished` (the
        trajectory ended with an answer) and `context_full`.
        """
        return {
            **{f"reward/{name}": float(self.terms.values.get(name, 0.0)) for name in terms},
            **self.log.metrics(),
            "finished": float(self.end is EndReason.ANSWERED),
            "context_full": float(self.end is EndReason.CONTEXT_FULL),
        }

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the whole trajectory by name: reward terms, counters and rates.

        The names are the same for every trajectory of a system, so that values can be averaged. A
        metric that is undefined for a trajectory, such as recall without gold pages, is left out
        (`measured`).
        """
        return self.common_metrics(())


StateT = TypeVar("StateT", bound=EnvState)


def measured(numbers: Mapping[str, float | None]) -> dict[str, float]:
    """Drop undefined metrics (`None`), such as recall without gold, so that no average counts them
    as 0.
    """
    return {name: value for name, value in numbers.items() if value is not None}


@dataclass(frozen=True, slots=True)
class OutcomeMetrics:
    """The names of the metrics for the outcome, in [0, 1], and for the format of the turns.

    A trajectory without the metric `outcome` is unjudged. `full_form` is the value of the metric
    `form` for a correct format: 1 for a reward, 0 for a penalty.
    """

    outcome: str | None = None
    form: str | None = None
    full_form: float = 1.0

    def outcome_of(self, metrics: Mapping[str, float]) -> Outcome | None:
        """Return the outcome that the environment recorded; `None` if no metric records it."""
        return Outcome.of(metrics.get(self.outcome)) if self.outcome else None

    def form_of(self, metrics: Mapping[str, float]) -> bool | None:
        """Return whether the format was fully correct; `None` if no metric records it."""
        given = metrics.get(self.form) if self.form else None
        return None if given is None else given >= self.full_form


NO_OUTCOME_METRICS = OutcomeMetrics()


class UnknownActionError(TypeError):
    """A grammar accepts an action that its environment cannot execute: a bug in the system."""

    def __init__(self, system: str, action: Action) -> None:
        super().__init__(f"{system} has no action {type(action).__name__}")


class DocEnv(ABC, Generic[StateT]):
    """One trajectory of one system. Create a new environment per trajectory; nothing is shared.

    A system implements `show_prompt`, `step` and `conclude`, and `new_state` if its state has more
    fields than `EnvState`. Alternatively, it extends `ToolEnv`, which implements most of this.

    Raises (all methods that touch services):
        InfrastructureError: a retriever or a judge failed after its own retries and deadline.
    """

    _state: StateT | None = None
    outcome_metrics: OutcomeMetrics = NO_OUTCOME_METRICS
    """The marks of its system."""
    reward_function: RewardFunction | None = None
    """The user's own reward function, called when the trajectory has ended (`rollout.recorder`)."""

    async def reset(self, sample: Sample) -> Observation:
        """Start a trajectory and return its prompt.

        Raises `UserError` for a sample that cannot be played.
        """
        # in a thread, since the first access to a document reads its manifest or its pages
        state = await asyncio.to_thread(self.new_state, sample)
        await self.prepare(state)
        return await asyncio.to_thread(self.begin, state)

    def opening(self, sample: Sample) -> Observation:
        """Return a prompt of the greatest length that `reset` can return, without calling services.

        Checks before a run use it.
        """
        return self.begin(self.new_state(sample))

    def begin(self, state: StateT) -> Observation:
        """Start the trajectory of a prepared state and return its prompt."""
        self._state = state
        return self.show_prompt(state)

    def new_state(self, sample: Sample) -> StateT:
        """Return the state before the first turn, without calling services."""
        # systems with a state class of their own override this method
        return cast("StateT", EnvState(sample))

    async def prepare(self, state: StateT) -> None:
        """Call the services that the prompt needs.

        An environment that overrides this method must override `opening` too.
        """

    @abstractmethod
    def show_prompt(self, state: StateT) -> Observation:
        """Return the prompt of a new trajectory; raises `UserError` if it cannot be shown."""

    @property
    def state(self) -> StateT:
        """The state of the trajectory; raises `RuntimeError` before the first `reset`."""
        if self._state is None:
            raise RuntimeError("call reset() first")
        return self._state

    @property
    def running(self) -> StateT:
        """The state of a running trajectory; raises `RuntimeError` if it has ended."""
        state = self.state
        if state.end is not None:
            raise RuntimeError(f"the trajectory has ended ({state.end.value})")
        return state

    def adapted(self) -> str | None:
        """Describe briefly what was changed to make the prompt fit; `None` if nothing was."""
        return None

    @abstractmethod
    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn."""

    @abstractmethod
    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the rollout had to end; return the terms of its last turn.

        If the last observation was dropped because it did not fit, it counts as never shown.
        """

    def metrics(self) -> dict[str, float]:
        """Return the metrics of the whole trajectory by name (see `EnvState.metrics`)."""
        return self.state.metrics()

    def outcome(self) -> WrittenAnswer | None:
        """Return the answer that another model wrote after the last turn.

        The value is `None` if the policy itself answers.
        """
        return None

    def trajectory_text(self) -> str | None:
        """Return the text by which trajectories of a question are compared.

        The value is `None` if the system defines no such text.
        """
        return None
