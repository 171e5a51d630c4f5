"""The actions of agents, and the interface of the grammars that parse them.

A system adds an action by subclassing `Action`, or by subclassing one of the actions below to
specialise it.
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
    """The reason why sampling of an assistant turn stopped."""

    END_OF_TURN = "end_of_turn"
    TRUNCATED = "truncated"
    """The turn hit its token cap or the end of the context."""
    CONTROL_TOKEN = "control_token"
    """A chat-control token or a vision placeholder was sampled; its id was dropped."""


class InvalidReason(Enum):
    """The reason why a turn contains no executable action."""

    NO_ACTION = "no_action"
    UNCLOSED = "unclosed"
    NESTED = "nested"
    TRUNCATED = "truncated"
    CONTROL_TOKEN = "control_token"
    BAD_ARGUMENT = "bad_argument"
    SEVERAL = "several"
    """More than one action, in a system that accepts exactly one per turn."""


@dataclass(frozen=True, slots=True)
class Action:
    """One parsed action: the span of its tagged block (tags included) and of the block's content.

    Token-level rewards locate their tokens through `argument`. Both spans are `None` for an invalid
    turn that contains no block.
    """

    block: Span | None
    argument: Span | None

    @property
    def kind(self) -> str:
        """The name under which the action is recorded.

        A system's specialised action is recorded under the name of the action it specialises.
        """
        return self._base_action().__name__.lower()

    def arguments(self) -> dict[str, Any]:
        """Return the arguments by name, ready for JSON; fields that a specialised action adds are
        left out.
        """
        names = [
            field.name
            for field in fields(self._base_action())
            if field.name not in ("block", "argument")
        ]
        return {name: _as_json(getattr(self, name)) for name in names}

    @classmethod
    def _base_action(cls) -> type[Action]:
        """Return the direct subclass of `Action` that this class is or specialises."""
        known = (kind for kind in cls.__mro__ if issubclass(kind, Action))
        return next((kind for kind in known if Action in kind.__bases__), cls)


@dataclass(frozen=True, slots=True)
class Search(Action):
    """Send a query to the retriever."""

    query: str


@dataclass(frozen=True, slots=True)
class Fetch(Action):
    """Open pages by their 1-based numbers."""

    pages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Select(Action):
    """Choose among the most recent candidates by 1-based number.

    `choices` may be empty in systems that tolerate that.
    """

    choices: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Crop(Action):
    """Zoom into boxes of the most recent image."""

    boxes: tuple[Box, ...]


@dataclass(frozen=True, slots=True)
class Read(Action):
    """Have pages read for a goal; page numbers are 1-based."""

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
    """A turn that cannot be executed; it gets a defined observation and penalty, never an
    exception.

    `detail` is one clause for the feedback; it never contains a closed example of an action.
    """

    reason: InvalidReason
    detail: str

    def arguments(self) -> dict[str, Any]:
        """Return the reason; the detail is recorded separately, next to the action."""
        return {"reason": self.reason.value}


@dataclass(frozen=True, slots=True)
class ParsedTurn:
    """One assistant turn, parsed by a grammar.

    Args:
        action: the action to execute.
        surplus: later closed actions, which are counted but not executed.
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
        """Parse the decoded text of an assistant turn without special tokens; never raises."""
        ...


def _as_json(value: Any) -> Any:
    """Return the value with tuples, at any depth, turned into lists."""
    return [_as_json(item) for item in value] if isinstance(value, tuple) else value
