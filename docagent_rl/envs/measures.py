"""Numbers of an episode: which of them say what, and those that mean nothing for some questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Marks:
    """Which of an environment's numbers mark an episode; without one, nothing is known of that.

    Args:
        outcome: says how right the answer is, 0 to 1.
        form: says whether the turns keep the form.
        full_form: its value where they do: 1 of a reward, 0 of a penalty.
    """

    outcome: str | None = None
    form: str | None = None
    full_form: float = 1.0

    def outcome_of(self, metrics: Mapping[str, float]) -> float | None:
        """How right the environment found the answer."""
        return metrics.get(self.outcome) if self.outcome else None

    def form_of(self, metrics: Mapping[str, float]) -> bool | None:
        """Whether the form got full marks."""
        given = metrics.get(self.form) if self.form else None
        return None if given is None else given >= self.full_form


UNMARKED = Marks()


def measured(numbers: Mapping[str, float | None]) -> dict[str, float]:
    """The numbers that there are: `None` is left out, so that no average takes it for 0.

    A recall, precision or NDCG of a question without gold pages is such a number.
    """
    return {name: value for name, value in numbers.items() if value is not None}
