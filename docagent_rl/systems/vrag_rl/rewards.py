"""The reward of VRAG-RL (arXiv 2505.22019): one scalar at the end of an episode."""

from __future__ import annotations

import math
from dataclasses import dataclass

from docagent_rl.rewards.formula import Formula, Gate


@dataclass(frozen=True, slots=True)
class VragReward:
    """Weights and gate of the total reward.

    The paper's total is `alpha * r_ret + beta * r_ans + gamma * r_fmt` with weights that sum to 1 (Eq. 12).
    The released reward manager gives `r_fmt * (0.7 * r_ans + 0.2 * r_ret + 0.1)`: the same sum behind a gate.

    Args:
        alpha: weight of the retrieval term.
        beta: weight of the outcome term.
        gamma: weight of the format term.
        gate: reward nothing at all unless the format term is 1.

    Raises:
        ValueError: a weight is negative, or they do not sum to 1.
    """

    alpha: float
    beta: float
    gamma: float
    gate: bool

    def __post_init__(self) -> None:
        weights = (self.alpha, self.beta, self.gamma)
        if not all(weight >= 0 for weight in weights) or not math.isclose(sum(weights), 1.0, abs_tol=1e-9):
            raise ValueError(f"alpha, beta and gamma must not be negative and sum to 1, found {weights}")

    @property
    def formula(self) -> Formula:
        """How the terms make the total."""
        weights = {"retrieval_ndcg": self.alpha, "outcome": self.beta, "format": self.gamma}
        return Formula(weights, Gate("format", above=0.0, otherwise=0.0) if self.gate else None)

    def needs_outcome(self, fmt: float) -> bool:
        """Whether the outcome can change the total, so that the judge has to be asked."""
        return self.formula.opens({"format": fmt})

    def total(self, *, retrieval: float, outcome: float, fmt: float) -> float:
        """The reward of an episode.

        Args:
            retrieval: `r_ret` in `[0, 1]`.
            outcome: `r_ans` in `[0, 1]`.
            fmt: `r_fmt`, 0 or 1.

        Returns:
            A value in `[0, 1]`.
        """
        return self.formula.total({"retrieval_ndcg": retrieval, "outcome": outcome, "format": fmt})


def format_reward(*, searched: bool, answered: bool) -> float:
    """`r_fmt`: 1 when at least one search was executed and the episode ended with an answer, else 0.

    Read off the environment's record of executed actions, never off text (released code, rule of its format
    check; the paper only names a parser).
    """
    return float(searched and answered)
