"""The record of a turn: its action, whether it was valid, and its effect.

An environment creates a `TurnRecord`; its `to_dict` becomes the entry `info` of a turn in a
trajectory file. The viewer, the evidence funnel, filters and reports parse it back with
`TurnRecord.from_dict`, so that they use attributes instead of keys. A file may contain anything;
values of the wrong type are dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from docagent_rl.actions.base import Action, Span
from docagent_rl.envs.effect_reading import read_effect
from docagent_rl.envs.effects import NO_EFFECT, Effect
from docagent_rl.envs.recorded import listing, mapping, number_of, span_of, text_of, whole_of
from docagent_rl.envs.shown_page import ValueT, known, rest_of, without_none


@dataclass(frozen=True, slots=True)
class ActionRecord:
    """The action of a turn.

    Args:
        kind: the kind of the action (`Action.kind`); empty if none is recorded.
        block: character span of its tagged block in the turn's text; `None` if it has no block.
        argument: character span of the block's content.
        arguments: its arguments by name, JSON-ready (`Action.arguments`).
    """

    kind: str = ""
    block: Span | None = None
    argument: Span | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, action: Action) -> ActionRecord:
        """Return the record of an action."""
        return cls(action.kind, action.block, action.argument, action.arguments())

    @property
    def text(self) -> str | None:
        """The text of an answer; `None` for other actions."""
        return text_of(self.arguments.get("text"))

    def to_dict(self) -> dict[str, Any]:
        """Return the action as a JSON-ready dictionary."""
        return {
            "kind": self.kind,
            "block": list(self.block) if self.block else None,
            "argument": list(self.argument) if self.argument else None,
            **self.arguments,
        }

    @classmethod
    def from_dict(cls, data: object) -> ActionRecord:
        """Parse the output of `to_dict`."""
        found = mapping(data)
        return cls(
            kind=text_of(found.get("kind")) or "",
            block=span_of(found.get("block")),
            argument=span_of(found.get("argument")),
            arguments=rest_of(found, _OF_ACTION),
        )


NO_ACTION = ActionRecord()
_OF_ACTION = frozenset({"kind", "block", "argument"})


@dataclass(frozen=True, slots=True)
class WrittenAnswer:
    """The answer of a trajectory that another model wrote.

    Args:
        answer: the full answer.
        extracted: the short answer extracted from it; `None` if the extraction failed.
        pages: numbers of the pages on which it is based, in the order of reading.
    """

    answer: str
    extracted: str | None = None
    pages: tuple[int, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as a JSON-ready dictionary."""
        return {"answer": self.answer, "extracted": self.extracted, "pages": list(self.pages)}

    @classmethod
    def from_dict(cls, data: object) -> WrittenAnswer | None:
        """Parse the output of `to_dict`; `None` if no such answer is recorded."""
        if data is None:
            return None
        found = mapping(data)
        return cls(
            answer=text_of(found.get("answer")) or "",
            extracted=text_of(found.get("extracted")),
            pages=known(map(whole_of, listing(found.get("pages")))),
        )


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """The record of a turn, created by its environment.

    Args:
        turn: the number of the turn, from 1; 0 if it is unknown.
        action: the action of the turn.
        valid: whether the turn was well formed and could be executed.
        reason: why it was not valid, as one word (`InvalidReason`).
        detail: why it was not valid, as a clause.
        executed: whether its action was executed.
        effect: the effect of the action.
        surplus: further actions, which were not executed.
        thoughts: character spans of its thoughts in the turn's text.
        notes: character spans of its notes in the turn's text.
        seconds: time spent, by stage.
        faults: format violations; `None` if the system does not record them.
        relevant_pages: numbers of the pages that the turn names as relevant; `None` if the system
            has no syntax for that.
        text: the text by which trajectories are compared; `None` for the text of the turn itself.
        written: the answer that another model wrote after the turn.
        own: JSON-ready fields that a system adds.
    """

    turn: int = 0
    action: ActionRecord = NO_ACTION
    valid: bool = True
    reason: str | None = None
    detail: str | None = None
    executed: bool = False
    effect: Effect = NO_EFFECT
    surplus: tuple[ActionRecord, ...] = ()
    thoughts: tuple[Span, ...] = ()
    notes: tuple[Span, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    faults: tuple[str, ...] | None = None
    relevant_pages: tuple[int, ...] | None = None
    text: str | None = None
    written: WrittenAnswer | None = None
    own: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the record as a JSON-ready dictionary."""
        found = {
            "turn": self.turn,
            "action": self.action.to_dict(),
            "valid": self.valid,
            "reason": self.reason,
            "detail": self.detail,
            "executed": self.executed,
            "effect": self.effect.to_dict(),
            "surplus": [action.to_dict() for action in self.surplus],
            "thoughts": [list(span) for span in self.thoughts],
            "notes": [list(span) for span in self.notes],
            "seconds": dict(self.seconds),
        }
        if self.faults is not None:
            found["faults"] = list(self.faults)
        if self.relevant_pages is not None:
            found["relevant_pages"] = list(self.relevant_pages)
        if self.text is not None:
            found["text"] = self.text
        if self.written is not None:
            found[WRITTEN] = self.written.to_dict()
        return {**found, **self.own}

    @classmethod
    def from_dict(cls, data: object) -> TurnRecord:
        """Parse the output of `to_dict`; a turn without a record counts as valid, not executed."""
        found = mapping(data)
        if not found:
            return NO_RECORD
        return cls(
            turn=whole_of(found.get("turn")) or 0,
            action=ActionRecord.from_dict(found.get("action")),
            valid=found.get("valid") is not False,
            reason=text_of(found.get("reason")),
            detail=text_of(found.get("detail")),
            executed=found.get("executed") is True,
            effect=read_effect(found.get("effect")),
            surplus=tuple(map(ActionRecord.from_dict, listing(found.get("surplus")))),
            thoughts=known(map(span_of, listing(found.get("thoughts")))),
            notes=known(map(span_of, listing(found.get("notes")))),
            seconds=_seconds(found.get("seconds")),
            faults=_all(text_of, found.get("faults")),
            relevant_pages=_all(whole_of, found.get("relevant_pages")),
            text=text_of(found.get("text")),
            written=WrittenAnswer.from_dict(found.get(WRITTEN)),
            own=rest_of(found, _OF_TURN),
        )


NO_RECORD = TurnRecord()
"""The record of a turn for which the environment recorded nothing."""
WRITTEN = "outcome"
"""The key of `TurnRecord.written` in a file."""
_OF_TURN = frozenset({each.name for each in fields(TurnRecord)} - {"own", "written"} | {WRITTEN})


def _seconds(value: object) -> dict[str, float]:
    found = {name: number_of(seconds) for name, seconds in mapping(value).items()}
    return without_none(found)


def _all(read: Callable[[object], ValueT | None], value: object) -> tuple[ValueT, ...] | None:
    """Parse the values of a list; `None` if there is no list."""
    return known(map(read, value)) if isinstance(value, list | tuple) else None
