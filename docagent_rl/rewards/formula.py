"""The weighted sum of a reward's terms as data, used to compute a reward and to display it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Gate:
    """A condition on the whole sum: the reward is `otherwise` unless `term` is above `above`."""

    term: str
    above: float
    otherwise: float


@dataclass(frozen=True, slots=True)
class Formula:
    """A weighted sum of terms.

    Args:
        weights: the weight of each term, by name.
        gate: a condition on the sum; `None` if terms always count.
        turnwise: the formula applies to every turn, and a trajectory's reward is the sum over its
            turns.
        tokens: weights of the terms that are applied to single tokens within a turn, outside the
            sum and the gate.
    """

    weights: Mapping[str, float]
    gate: Gate | None = None
    turnwise: bool = False
    tokens: Mapping[str, float] = field(default_factory=dict)

    def opens(self, values: Mapping[str, float]) -> bool:
        """Return whether the gate is open; a formula without a gate is always open."""
        return self.gate is None or values.get(self.gate.term, 0.0) > self.gate.above

    def total(self, values: Mapping[str, float]) -> float:
        """Return the reward without token-level terms; absent terms count as 0."""
        if self.gate is not None and not self.opens(values):
            return self.gate.otherwise
        return math.fsum(weight * values.get(name, 0.0) for name, weight in self.weights.items())

    def __str__(self) -> str:
        parts = [_sum(self.weights)]
        if self.gate is not None:
            parts.append(f"{self.gate.otherwise:g} unless {self.gate.term} > {self.gate.above:g}")
        parts += ["summed over the turns"] if self.turnwise else []
        parts += [f"on tokens {_sum(self.tokens)}"] if self.tokens else []
        return "; ".join(parts)


def _sum(weights: Mapping[str, float]) -> str:
    """Return the terms of non-zero weight as text: `0.2 search + outcome - 0.5 repetition`."""
    text = ""
    for name, weight in weights.items():
        if not weight:
            continue
        if text:
            text += " - " if weight < 0 else " + "
        elif weight < 0:
            text = "-"
        if abs(weight) != 1:
            text += f"{abs(weight):g} "
        text += name
    return text or "0"
