"""What an environment shows, takes and pays; nothing here knows of tokens or of verl."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from docagent_rl.actions.base import Span, StopCause
from docagent_rl.data.record import Record
from docagent_rl.envs.images import Fill, ImageRef, ImageSheet, Label, Picture, Size, Tile

__all__ = [
    "AssistantTurn",
    "DocEnv",
    "EndReason",
    "Fill",
    "ImagePart",
    "ImageRef",
    "ImageSheet",
    "Label",
    "Message",
    "Observation",
    "Part",
    "Picture",
    "RewardTerms",
    "Role",
    "Size",
    "StepResult",
    "TextPart",
    "Tile",
    "TokenTerm",
]


@dataclass(frozen=True, slots=True)
class TextPart:
    """Text of a message."""

    text: str


@dataclass(frozen=True, slots=True)
class ImagePart:
    """An image of a message."""

    image: Picture


Part = TextPart | ImagePart


class Role(Enum):
    """Who speaks."""

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
    """What the policy sees before its next turn: at the start the prompt, later usually one user message."""

    messages: tuple[Message, ...]
    fresh: bool = False
    """Begin a new context with these messages instead of going on with the old one; every context becomes a
    training row of its own, and all rows of an episode share its reward."""

    @property
    def images(self) -> tuple[Picture, ...]:
        """The images, in the order of their placeholders."""
        return tuple(p.image for m in self.messages for p in m.parts if isinstance(p, ImagePart))

    @classmethod
    def user(cls, *parts: Part) -> Observation:
        """One user message."""
        return cls((Message(Role.USER, parts),))


@dataclass(frozen=True, slots=True)
class AssistantTurn:
    """One sampled turn, decoded.

    Args:
        text: text of the sampled ids without special tokens.
        stop: why sampling ended.
    """

    text: str
    stop: StopCause = StopCause.END_OF_TURN


@dataclass(frozen=True, slots=True)
class TokenTerm:
    """A reward for the tokens that carry the characters `span` of a turn; the value is split evenly."""

    name: str
    span: Span
    value: float


@dataclass(frozen=True, slots=True)
class RewardTerms:
    """Named reward terms of one turn.

    Args:
        values: every term by name, unweighted; all of them reach the logs.
        reward: the turn's reward after the system's weights; it lands on the turn's last sampled token.
        tokens: terms that land on tokens inside the turn, already weighted.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    reward: float = 0.0
    tokens: tuple[TokenTerm, ...] = ()


class EndReason(Enum):
    """How an episode ended."""

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
        """The policy ended the episode by itself, in order."""
        return self in (EndReason.ANSWERED, EndReason.FINISHED)


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a turn led to.

    Args:
        observation: the next observation; `None` when the episode has ended.
        end: why the episode ended; `None` while it goes on.
        terms: reward of the turn.
        info: record of the turn for the trajectory (action, effect, validity), JSON-ready.
    """

    observation: Observation | None
    end: EndReason | None = None
    terms: RewardTerms = field(default_factory=RewardTerms)
    info: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.observation is None) == (self.end is None):
            raise ValueError("a step either shows something or ends the episode")

    @property
    def done(self) -> bool:
        """No further turn is asked for."""
        return self.end is not None


class DocEnv(ABC):
    """One episode of one system. Make a new environment for every session; nothing is shared between them.

    Raises (all methods that touch services):
        InfrastructureError: a retriever or a judge failed after its own retries and deadline.
    """

    @abstractmethod
    def reset(self, sample: Record) -> Observation:
        """Begin an episode.

        Raises:
            UserError: the sample cannot be played (unknown document, no gold pages, ...).
        """

    async def begin(self, sample: Record) -> Observation:
        """Begin an episode; environments whose opening asks a service override it. See `reset`."""
        return self.reset(sample)

    @abstractmethod
    async def step(self, turn: AssistantTurn) -> StepResult:
        """Execute the action of a turn."""

    @abstractmethod
    async def conclude(self, reason: EndReason) -> RewardTerms:
        """Settle an episode that the rollout had to end; the terms belong to the last sampled turn.

        The observation that was offered last and dropped, if any, counts as never shown.
        """

    @abstractmethod
    def metrics(self) -> dict[str, float]:
        """Numbers of the whole episode by name (reward terms by their names, counters, rates).

        The names are the same for every episode of a system, so that they can be averaged.
        """

    def trajectory_text(self) -> str | None:
        """The text by which episodes of a question are compared; None: the system has no form of its own."""
        return None
