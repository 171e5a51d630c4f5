"""The interface of environments: messages, turns, rewards. Nothing here knows of tokens or of
verl.
"""

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
    """Text of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image of a message."""

    image: Picture


Part = TextPart | ImagePart


Line = str | Picture
"""A line or an image of a message."""


def parts_of(lines: Iterable[Line]) -> tuple[Part, ...]:
    """Return lines and images as the parts of a message, a line break wherever two of them meet."""
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
    """The messages that the policy sees before its next turn: the prompt, later usually one user
    message.
    """

    messages: tuple[Message, ...]
    fresh: bool = False
    """Begin a new context with these messages instead of going on with the old one; every context
    becomes a training row of its own, and all rows of a trajectory share its reward.
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
    """One sampled turn: the text of the sampled ids without special tokens, and why sampling
    ended.
    """

    text: str
    stop: StopCause = StopCause.END_OF_TURN


@dataclass(frozen=True, slots=True)
class TokenTerm:
    """A term on the tokens that carry the characters `span` of a turn; it is split evenly over
    them.

    `weight` is what the value is multiplied with in the reward; negative for a penalty.
    """

    name: str
    span: Span
    value: float
    weight: float = 1.0

    @property
    def reward(self) -> float:
        """The value after its weight."""
        return self.weight * self.value


@dataclass(frozen=True, slots=True)
class RewardTerms:
    """Named reward terms of one turn, unweighted; all of them reach the logs.

    `reward` is the turn's after the system's weights and lands on its last sampled token; `tokens`
    land on tokens inside the turn and come on top of it.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    reward: float = 0.0
    tokens: tuple[TokenTerm, ...] = ()


class EndReason(Enum):
    """The end of a trajectory."""

    ANSWERED = "answered"
    TURN_LIMIT = "turn_limit"
    CONTEXT_FULL = "context_full"
    """The next observation, or one more turn, did not fit."""
    FINISHED = "finished"
    """The policy ended its part; somebody else answers."""
    INVALID = "invalid"
    """A turn that the system does not forgive."""
    IMAGE_LIMIT = "image_limit"
    """The context holds as many images as it may."""

    @property
    def complete(self) -> bool:
        """The policy ended the trajectory by itself, in order."""
        return self in (EndReason.ANSWERED, EndReason.FINISHED)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a turn: the next observation, or why the trajectory ended, and the reward of
    the turn.

    `record` is what the trajectory keeps of the turn: its action, whether it was valid, what it led
    to.
    """

    observation: Observation | None
    end: EndReason | None = None
    terms: RewardTerms = field(default_factory=RewardTerms)
    record: TurnRecord = NO_RECORD

    def __post_init__(self) -> None:
        if (self.observation is None) == (self.end is None):
            raise ValueError("a step either shows something or ends the trajectory")

    @property
    def done(self) -> bool:
        """No further turn is asked for."""
        return self.end is not None


@dataclass(slots=True)
class EnvState:
    """The state of one trajectory; systems add what they need.

    `terms` is its reward, for systems that reward the last turn alone; `end` is `None` while it
    goes on.
    """

    shown_by_turn: ClassVar[tuple[str, ...]] = ()
    """Fields that are as before the turn where its observation was never shown."""
    sample: Sample
    log: TurnLog = field(default_factory=TurnLog, kw_only=True)
    terms: RewardTerms = field(default_factory=RewardTerms, kw_only=True)
    end: EndReason | None = field(default=None, kw_only=True)
    _before: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def begin_turn(self) -> None:
        """Note what the turn that begins may change."""
        self._before = {name: copy(getattr(self, name)) for name in self.shown_by_turn}

    def take_back(self) -> None:
        """Return to the state before the last turn, whose observation was never shown."""
        for name, value in self._before.items():
            setattr(self, name, value)
        self.log.turns[-1].dropped = True

    def settle(self, end: EndReason, values: Mapping[str, float]) -> RewardTerms:
        """End the trajectory with these terms, of which `total` is the reward, and return them."""
        self.end = end
        self.terms = RewardTerms(values, reward=values["total"])
        return self.terms

    def common_metrics(self, terms: Iterable[str]) -> dict[str, float]:
        """Return `reward/*` of `terms`, the log's numbers, `finished` (with an answer),
        `context_full`.
        """
        return {
            **{f"reward/{name}": float(self.terms.values.get(name, 0.0)) for name in terms},
            **self.log.metrics(),
            "finished": float(self.end is EndReason.ANSWERED),
            "context_full": float(self.end is EndReason.CONTEXT_FULL),
        }

    def metrics(self) -> dict[str, float]:
        """Return numbers of the whole trajectory by name (reward terms, counters, rates).

        The names are the same for every trajectory of a system, so that they can be averaged; a
        number that means nothing for one, such as a recall where nothing is gold, is left out
        (`measured`).
        """
        return self.common_metrics(())


StateT = TypeVar("StateT", bound=EnvState)


def measured(numbers: Mapping[str, float | None]) -> dict[str, float]:
    """Return the numbers that are not `None`, such as a recall without gold: no average takes those
    for 0.
    """
    return {name: value for name, value in numbers.items() if value is not None}


@dataclass(frozen=True, slots=True)
class Marks:
    """The metrics that tell how right an answer is, 0 to 1, and whether the form was kept.

    A trajectory without the metric `outcome` is one whose answer nobody judged. `full_form` is the
    value of `form` where it was: 1 of a reward, 0 of a penalty.
    """

    outcome: str | None = None
    form: str | None = None
    full_form: float = 1.0

    def outcome_of(self, metrics: Mapping[str, float]) -> Outcome | None:
        """Return how right the environment found the answer; `None` where no metric tells."""
        return Outcome.of(metrics.get(self.outcome)) if self.outcome else None

    def form_of(self, metrics: Mapping[str, float]) -> bool | None:
        """Return whether the form got full marks."""
        given = metrics.get(self.form) if self.form else None
        return None if given is None else given >= self.full_form


UNMARKED = Marks()


class UnknownActionError(TypeError):
    """A grammar accepts an action that its environment does not carry out: a bug of the system."""

    def __init__(self, system: str, action: Action) -> None:
        super().__init__(f"{system} has no action {type(action).__name__}")


class DocEnv(ABC, Generic[StateT]):
    """One trajectory of one system. Make a new environment for every trajectory; nothing is shared.

    A system writes `show_prompt`, `step` and `conclude`, and `new_state` where it keeps more than
    `EnvState`; or it extends `ToolEnv`, which does most of that.

    Raises (all methods that touch services):
        InfrastructureError: a retriever or a judge failed after its own retries and deadline.
    """

    _state: StateT | None = None
    marks: Marks = UNMARKED
    """The marks of its system."""
    reward_function: RewardFunction | None = None
    """The user's own, which is asked when the trajectory has ended (`rollout.recorder`)."""

    async def reset(self, sample: Sample) -> Observation:
        """Begin a trajectory and return its prompt; raises `UserError` for a sample that cannot be
        played.
        """
        # the first look at a document reads its manifest or its pages
        state = await asyncio.to_thread(self.new_state, sample)
        await self.prepare(state)
        return await asyncio.to_thread(self.begin, state)

    def opening(self, sample: Sample) -> Observation:
        """Return a prompt as long as that of `reset` can be, for checks before a run; no service is
        asked.
        """
        return self.begin(self.new_state(sample))

    def begin(self, state: StateT) -> Observation:
        """Go on with a trajectory that was opened; return its prompt."""
        self._state = state
        return self.show_prompt(state)

    def new_state(self, sample: Sample) -> StateT:
        """Return the state before the first turn; no service is asked."""
        # systems whose state is another one say how it begins
        return cast("StateT", EnvState(sample))

    async def prepare(self, state: StateT) -> None:
        """Ask services for what the prompt needs; an environment that does overrides `opening`,
        too.
        """

    @abstractmethod
    def show_prompt(self, state: StateT) -> Observation:
        """Return the prompt of a trajectory that begins; raises `UserError` if it cannot be
        shown.
        """

    @property
    def state(self) -> StateT:
        """The state of the trajectory; raises `RuntimeError` before the first `reset`."""
        if self._state is None:
            raise RuntimeError("call reset() first")
        return self._state

    @property
    def running(self) -> StateT:
        """The state of a trajectory that goes on; raises `RuntimeError` once it has ended."""
        state = self.state
        if state.end is not None:
            raise RuntimeError(f"the trajectory has ended ({state.end.value})")
        return state

    def adapted(self) -> str | None:
        """Return what was changed to make the prompt fit, in a few words; `None`: nothing."""
        return None

    @abstractmethod
    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn."""

    @abstractmethod
    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle a trajectory that the rollout had to end; the terms belong to the last sampled
        turn.

        The observation that was offered last and dropped, if any, counts as never shown.
        """

    def metrics(self) -> dict[str, float]:
        """Return numbers of the whole trajectory by name (see `EnvState.metrics`)."""
        return self.state.metrics()

    def outcome(self) -> WrittenAnswer | None:
        """Return the answer that another model wrote, for the last turn; `None`: the policy
        answers.
        """
        return None

    def trajectory_text(self) -> str | None:
        """Return the text by which trajectories of a question are compared; `None`: the system has
        none.
        """
        return None
