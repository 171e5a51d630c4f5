"""The outcome of a trajectory: its answer is right or wrong, or nobody judged it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from pydantic import ConfigDict

RIGHT_FROM = 0.5
"""The least score of a right answer."""
ACCURACY = "outcome/accuracy_of_judged"
"""The number that says whether a judged answer is right; an unjudged one does not have it."""
UNJUDGED_SHARE = "outcome/unjudged"
"""The number that says whether an answer is unjudged."""


class OutcomeState(StrEnum):
    """The three things that can be known of an answer."""

    RIGHT = "right"
    WRONG = "wrong"
    """Also where there is no answer."""
    UNJUDGED = "unjudged"
    """There is an answer, and nobody said whether it is right: the gate of a reward was closed."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """An answer as its environment judged it; make one by `of` or take `UNJUDGED`.

    Args:
        state: what is known of the answer.
        score: how right it is, 0 to 1; `None` of an unjudged one, which is not a score of 0.
    """

    __pydantic_config__ = ConfigDict(extra="forbid", strict=True)

    state: OutcomeState
    score: float | None

    def __post_init__(self) -> None:
        if self.state is not _state_of(self.score):
            raise ValueError(f"an answer with the score {self.score} is not {self.state.value}")

    @classmethod
    def of(cls, score: float | None) -> Outcome:
        """Return the outcome of an answer with this score, 0 to 1; `None` is that of an unjudged
        one.
        """
        return cls(_state_of(score), score)

    @property
    def term(self) -> float:
        """The outcome as a term of a reward: the score; 0 of an unjudged answer, which is not
        rewarded.
        """
        return 0.0 if self.score is None else self.score

    def metrics(self) -> dict[str, float]:
        """Return `ACCURACY`, 1 or 0, unless the answer is unjudged, and `UNJUDGED_SHARE`."""
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
