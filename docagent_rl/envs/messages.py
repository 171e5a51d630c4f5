"""Messages of texts and images that a policy is shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from docagent_rl.envs.images import Picture


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
