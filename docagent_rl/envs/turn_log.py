"""The turns of a trajectory and the metrics computed from them."""

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from docagent_rl.actions.base import Action, Invalid, InvalidReason, ParsedTurn
from docagent_rl.actions.grammar import bad_argument
from docagent_rl.envs.effects import NO_EFFECT, Effect
from docagent_rl.envs.turn_record import ActionRecord, TurnRecord

ParsedT = TypeVar("ParsedT", bound=ParsedTurn)
"""The type of parsed turn that a system's grammar returns."""


class RefusedError(ValueError):
    """An action cannot be executed here; the message is one clause for the feedback."""


@dataclass(slots=True)
class LoggedTurn(Generic[ParsedT]):
    """One assistant turn and its effect.

    Args:
        turn: the number of the turn, from 1.
        parsed: the turn as parsed by the grammar.
        executed: whether its action was executed; in the last turn, only an answer is.
        refused: why the environment could not execute an action that the grammar accepts.
        effect: the effect of the action.
        image_tokens: number of visual tokens of the images that it showed.
        dropped: whether its observation did not fit and was never shown.
        seconds: time spent, by stage.
    """

    turn: int
    parsed: ParsedT
    executed: bool = True
    refused: Invalid | None = None
    effect: Effect = NO_EFFECT
    image_tokens: int = 0
    dropped: bool = False
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def action(self) -> Action:
        """The action of the turn."""
        return self.parsed.action

    @property
    def invalid(self) -> Invalid | None:
        """The fault of the turn, if it has one."""
        return self.action if isinstance(self.action, Invalid) else self.refused

    def refuse(self, detail: str) -> None:
        """Mark the action as not executable; `detail` is one clause for the feedback."""
        self.refused = bad_argument(detail, self.action.block, self.action.argument)

    def ran(self, kind: type[Action]) -> bool:
        """Return whether an action of this kind was executed."""
        return self.executed and self.invalid is None and isinstance(self.action, kind)

    def record(self) -> TurnRecord:
        """Return the record of the turn for the trajectory."""
        invalid = self.invalid
        return TurnRecord(
            turn=self.turn,
            action=ActionRecord.of(self.action),
            valid=invalid is None,
            reason=invalid.reason.value if invalid else None,
            detail=invalid.detail if invalid else None,
            executed=self.executed and invalid is None,
            effect=self.effect,
            surplus=tuple(map(ActionRecord.of, self.parsed.surplus)),
            thoughts=self.parsed.thoughts,
            notes=self.parsed.notes,
            seconds=dict(self.seconds),
        )


@dataclass(slots=True)
class TurnLog:
    """The turns of a trajectory in order."""

    turns: list[LoggedTurn] = field(default_factory=list)

    def ran(self, kind: type[Action]) -> int:
        """Return the number of turns in which an action of this kind was executed."""
        return sum(logged.ran(kind) for logged in self.turns)

    def effects(self, kind: type[Effect]) -> int:
        """Return the number of turns with an effect of this kind."""
        return sum(isinstance(logged.effect, kind) for logged in self.turns)

    def metrics(self) -> dict[str, float]:
        """Return counts and rates by name; the names are the same for every trajectory."""
        turns = len(self.turns)
        faults = [logged.invalid.reason for logged in self.turns if logged.invalid]
        by_reason = {
            f"invalid/{reason.value}": float(faults.count(reason)) for reason in InvalidReason
        }
        return {
            "turns": float(turns),
            "invalid_actions": float(len(faults)),
            "invalid_action_rate": len(faults) / turns if turns else 0.0,
            **by_reason,
            "surplus_actions": float(sum(len(logged.parsed.surplus) for logged in self.turns)),
            "image_tokens": float(
                sum(logged.image_tokens for logged in self.turns if not logged.dropped)
            ),
        }
