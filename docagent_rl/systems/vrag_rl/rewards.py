"""The reward of VRAG-RL (arXiv 2505.22019, Eq. 11 and 12): one scalar per trajectory."""

import math
from typing import Self

from pydantic import Field, model_validator

from docagent_rl.base.section import Section
from docagent_rl.rewards.formula import Formula, Gate

TERMS = ("retrieval_ndcg", "outcome", "format", "total")


class VragReward(Section):
    """Weights of the reward; they sum to 1 (Eq. 12).

    The paper's total is `alpha * r_ret + beta * r_ans + gamma * r_fmt`. The released reward manager
    gives `r_fmt * (0.7 * r_ans + 0.2 * r_ret + 0.1)`, the same sum behind a gate.
    """

    alpha: float = Field(ge=0, le=1)
    """Weight of the retrieval term."""
    beta: float = Field(ge=0, le=1)
    """Weight of the outcome."""
    gamma: float = Field(ge=0, le=1)
    """Weight of the format term."""
    gate: bool
    """Reward nothing unless the format term is 1, and ask the judge only then, except in
    validation.
    """

    @model_validator(mode="after")
    def _check(self) -> Self:
        weights = (self.alpha, self.beta, self.gamma)
        if not all(weight >= 0 for weight in weights) or not math.isclose(
            sum(weights), 1.0, abs_tol=1e-9
        ):
            raise ValueError(
                f"alpha, beta and gamma must not be negative and sum to 1, found {weights}"
            )
        return self

    @property
    def formula(self) -> Formula:
        """The total of the terms `r_ret`, `r_ans` and `r_fmt`, each in `[0, 1]`."""
        weights = {"retrieval_ndcg": self.alpha, "outcome": self.beta, "format": self.gamma}
        return Formula(weights, Gate("format", above=0.0, otherwise=0.0) if self.gate else None)


def format_reward(*, searched: bool, answered: bool) -> float:
    """Return `r_fmt`: 1 if a search was executed and the trajectory ended with an answer, else 0.

    It depends on executed actions, never on text (released code; the paper only mentions a parser).
    """
    return float(searched and answered)
