"""The reward of Doc-V* (appendix C, reward): one scalar per trajectory."""

import math
from collections.abc import Collection, Hashable
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from docagent_rl.base.section import Section
from docagent_rl.rewards.formula import Formula

TERMS = ("answer", "evidence", "format", "total")


class HitRule(StrEnum):
    """The listed evidence pages that count as hits."""

    VISITED = "visited"
    """Those shown at reading resolution; listing a page after seeing just its thumbnail only costs
    precision.
    """
    LISTED = "listed"
    """All of them, as printed in the paper."""


class DocVStarReward(Section):
    """Weights of the reward `R = answer · R_a + evidence · R_e + format · R_f`, in total at most
    1.
    """

    answer: float = Field(ge=0, le=1)
    evidence: float = Field(ge=0, le=1)
    format: float = Field(ge=0, le=1)
    beta2: float = Field(gt=0, allow_inf_nan=False)
    """Weight of recall in the evidence term."""
    hits: HitRule = HitRule.VISITED
    """The listed evidence pages that count as hits."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        weights = (self.answer, self.evidence, self.format)
        if not all(weight >= 0 for weight in weights) or not 0 < math.fsum(weights) <= 1 + 1e-9:
            raise ValueError(
                "the weights of answer, evidence and format must not be negative and must sum to "
                f"at most 1, found {weights}"
            )
        return self

    @property
    def formula(self) -> Formula:
        """The total of the terms, each in `[0, 1]`."""
        return Formula({"answer": self.answer, "evidence": self.evidence, "format": self.format})


def evidence_score(
    listed: Collection[Hashable],
    gold: Collection[Hashable],
    visited: Collection[Hashable] | None = None,
    *,
    beta2: float = 2.0,
) -> float:
    """Return R_e, the recall-weighted F-score of the pages that a trajectory listed as relevant.

    With precision `hits / |P|` and recall `hits / |P_gt|` the paper's
    `(1 + beta²) · p · r / (beta² · p + r)` equals `(1 + beta²) · hits / (beta² · |P_gt| + |P|)`,
    which needs no small constant in the denominator.

    Args:
        listed: P, the existing pages listed in any turn.
        gold: P_gt, the evidence pages.
        visited: pages shown at reading resolution, which are the only possible hits; with `None`
            every page may be a hit.
        beta2: weight of recall, 2 in the paper.

    Returns:
        A value in `[0, 1]`; 1 if there are neither gold nor listed pages, 0 if only one of the sets
        is empty.
    """
    wanted = set(gold)
    found = set(listed)
    if not wanted or not found:
        return float(wanted == found)
    hits = len(wanted & found if visited is None else wanted & found & set(visited))
    # rounding may raise a perfect score slightly above 1
    return min(1.0, (1 + beta2) * hits / (beta2 * len(wanted) + len(found)))


def format_score(*, obeyed: bool, answered: bool) -> float:
    """Return R_f: 1 if no turn had a fault and there is a non-blank answer, else 0."""
    return float(obeyed and answered)
