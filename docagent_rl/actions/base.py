"""The actions of agents, and the interface of the grammars that read them.

A system adds an action as a subclass of `Action`, or of one of those here that it is a form of.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import Enum
from typing import Any, Protocol

Span = tuple[int, int]
"""Half-open character range `[start, end)` of the assistant turn's decoded text."""

Box = tuple[float, float, float, float]
"""`(x1, y1, x2, y2)` in the coordinate frame of the image the model was shown."""


class StopCause(Enum):
    """Reasons for the end of an assistant turn's sampling."""

    END_OF_TURN = "end_of_turn"
    TRUNCATED = "truncated"
    """The turn hit its token cap or the end of the context."""
    CONTROL_TOKEN = "control_token"
    """A chat-control or vision placeholder id was sampled; that id was dropped."""


class InvalidReason(Enum):
    """Reasons why a turn holds no action that can be executed."""

    NO_ACTION = "no_action"
    UNCLOSED = "unclosed"
    NESTED = "nested"
    TRUNCATED = "truncated"
    CONTROL_TOKEN = "control_token"
    BAD_ARGUMENT = "bad_argument"
    SEVERAL = "several"
    """More than one action, where a system takes exactly one."""


@dataclass(frozen=True, slots=True)
class Action:
    """One parsed action: spans of its tagged block, tags included, and of the block's content.

    Token-level rewards find their tokens by `argument`. An invalid turn without any block has
    neither.
    """

    block: Span | None
    argument: Span | None

    @property
    def kind(self) -> str:
        """The name by which it is recorded: a form of an action goes by the action's."""
        return self._general().__name__.lower()

    def arguments(self) -> dict[str, Any]:
        """Return its arguments by name, ready for JSON; a form of an action adds nothing."""
        names = [
            field.name
            for field in fields(self._general())
            if field.name not in ("block", "argument")
        ]
        return {name: _listed(getattr(self, name)) for name in names}

    @classmethod
    def _general(cls) -> type[Action]:
        known = (kind for kind in cls.__mro__ if issubclass(kind, Action))
        return next((kind for kind in known if Action in kind.__bases__), cls)


@dataclass(frozen=True, slots=True)
class Search(Action):
    """Ask the retriever."""

    query: str


@dataclass(frozen=True, slots=True)
class Fetch(Action):
    """Open pages by their 1-based numbers."""

    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Select(Action):
    """Choose among the candidates shown last, 1-based; no choice at all when a system forgives
    that.
    """

    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Crop(Action):
    """Zoom into boxes of the image shown last."""

    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Read(Action):
    """Have pages read for a goal, pages 1-based."""

    pages: tuple[int, ...]
    goal: str


@dataclass(frozen=True, slots=True)
class Answer(Action):
    """End the trajectory with an answer."""

    text: str


@dataclass(frozen=True, slots=True)
class Finish(Action):
    """End the trajectory without an answer of the policy's own."""


@dataclass(frozen=True, slots=True)
class Invalid(Action):
    """A turn that cannot be executed: a defined observation and a defined penalty, never an
    exception.

    `detail` is one clause for the feedback; it never holds a closed example of an action.
    """

    reason: InvalidReason
    detail: str

    def arguments(self) -> dict[str, Any]:
        """Return the reason; the detail is recorded beside the action."""
        return {"reason": self.reason.value}


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """One assistant turn as a grammar reads it.

    Args:
        action: the action to execute.
        surplus: later closed actions, which are counted and not executed.
        thoughts: spans of the closed thought blocks' contents.
        notes: spans of the contents of closed notes that are not blank.
    """

    action: Action
    surplus: tuple[Action, ...] = ()
    thoughts: tuple[Span, ...] = ()
    notes: tuple[Span, ...] = ()


class Grammar(Protocol):
    """Parses any text into an action."""

    def parse(self, text: str, stop: StopCause = StopCause.END_OF_TURN) -> ParsedTurn:
        """Parse the decoded text of an assistant turn, special tokens removed; never raises."""
        ...


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
