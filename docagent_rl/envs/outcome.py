"""The outcome of a trajectory: its answer is right, wrong or unjudged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import ConfigDict

RIGHT_FROM = 0.5
"""The lowest score of a right answer."""
ACCURACY = "outcome/accuracy_of_judged"
"""The metric for whether a judged answer is right; unjudged answers do not have it."""
UNJUDGED_SHARE = "outcome/unjudged"
"""The metric for whether an answer is unjudged."""


class OutcomeState(StrEnum):
    """The state of knowledge about an answer."""

    RIGHT = "right"
    WRONG = "wrong"
    """The answer is wrong or missing."""
    UNJUDGED = "unjudged"
    """There is an answer, but it was not judged because the gate of the reward was closed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The environment's judgement of an answer; create one with `of` or use `UNJUDGED`.

    Args:
        state: what is known about the answer.
        score: how right the answer is, 0 to 1; `None` if it is unjudged, which differs from 0.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    state: OutcomeState
    score: float | None

    def __post_init__(self) -> None:
        if self.state is not _state_of(self.score):
            raise ValueError(f"an answer with the score {self.score} is not {self.state.value}")

    @classmethod
    def of(cls, score: float | None) -> Outcome:
        """Return the outcome of an answer with this score, 0 to 1; `None` means unjudged."""
        return cls(_state_of(score), score)

    @property
    def term(self) -> float:
        """The outcome as a reward term: the score, or 0 for an unjudged answer."""
        return 0.0 if self.score is None else self.score

    def metrics(self) -> dict[str, float]:
        """Return `UNJUDGED_SHARE` and, unless the answer is unjudged, `ACCURACY` (1 or 0)."""
        if self.state is OutcomeState.UNJUDGED:
            return {UNJUDGED_SHARE: 1.0}
        return {ACCURACY: float(self.state is OutcomeState.RIGHT), UNJUDGED_SHARE: 0.0}


def _state_of(score: float | None) -> OutcomeState:
    if score is None:
        return OutcomeState.UNJUDGED
    return OutcomeState.RIGHT if score >= RIGHT_FROM else OutcomeState.WRONG


UNJUDGED = Outcome.of(None)
NO_ANSWER = Outcome.of(0.0)
"""The outcome of a trajectory that ends without an answer."""
