"""Compare each estimator's expected gradient in the toy with the true one: the bias card."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

import torch
from torch import Tensor

from bias_card.rows import BiasRow, Decisions, bias_rows
from bias_card.toy import Toy
from bias_card.toy_groups import ToyGroups
from docagent_rl.base.errors import UserError

_TOL = 1e-6
"""Tolerance of comparisons; cosines are computed in float32."""


class Verdict(StrEnum):
    """The effect of an estimator on the two decisions of the toy."""

    UNBIASED = "unbiased"
    SCALED = "scaled"
    """The gradient has the true direction, but another length."""
    UNEVEN = "uneven"
    """Each decision is pushed the right way, but not by the same factor."""
    BIASED = "biased"
    """A decision is pushed although it makes no difference to the reward."""
    SILENT = "no signal"
    """The expected gradient is zero."""


@dataclass(frozen=True)
class Measured:
    """The measurements of an estimator in the toy; pairs are (going on, picking well).

    Attributes:
        row: the estimator.
        expected: the estimator's expected gradient over all groups.
        true: the gradient of the expected total reward.
        variance: the variance of the gradient estimate of one group.
        push: the expected gradient in a toy where the decision makes no difference to the reward; 0
            if the estimator only subtracts a valid baseline.
        toll: the amount that is in effect subtracted from the reward of a decision; None if the
            bias is not a fixed amount.
        u: `1 - 1/G`, with the group size `G`.
    """

    row: BiasRow
    expected: tuple[float, float]
    true: tuple[float, float]
    variance: tuple[float, float]
    push: tuple[float, float]
    toll: tuple[float | None, float | None]
    u: float

    @property
    def ratio(self) -> tuple[float, float]:
        """The expected gradient divided by the true one, for each decision."""
        return self.expected[0] / self.true[0], self.expected[1] / self.true[1]

    @property
    def verdict(self) -> Verdict:
        """The verdict that follows from the numbers; see `Verdict`."""
        first, second = self.ratio
        if max(map(abs, self.push)) > _TOL:
            return Verdict.BIASED
        if max(abs(first), abs(second)) < _TOL:
            return Verdict.SILENT
        if abs(first - second) > _TOL:
            return Verdict.UNEVEN
        return Verdict.UNBIASED if abs(first - 1) < _TOL else Verdict.SCALED

    @property
    def explanation(self) -> str:
        """The verdict with its numbers, as text."""
        first, second = self.ratio
        if self.verdict == Verdict.SCALED:
            return "scaled by u" if abs(first - self.u) < _TOL else f"scaled by {first:.3f}"
        if self.verdict == Verdict.UNEVEN:
            return f"uneven: going on x {first:.3f}, picking well x {second:.3f}"
        if self.verdict != Verdict.BIASED:
            return str(self.verdict)
        parts = [
            f"pushes {name} without reason ({push:+.4f})"
            if toll is None
            else f"toll {toll:.2f} on {name}"
            for name, push, toll in zip(
                ("going on", "picking well"), self.push, self.toll, strict=True
            )
            if abs(push) > _TOL
        ]
        wrong = "; here the wrong way" if min(first, second) < -_TOL else ""
        return f"biased: {', '.join(parts)}{wrong}"


def measure(row: BiasRow, groups: ToyGroups) -> Measured:
    """Give all groups to an estimator, and measure its gradient.

    Two variants of the toy show whether the estimator is biased: one in which stopping has the same
    expected reward as going on, and one in which picking well has the same reward as picking badly.
    If the gradient of a decision that makes no difference is not 0, that is bias. The toll is the
    change of the reward that makes this gradient 0.

    Args:
        row: the estimator.
        groups: all groups of the toy, in which both true gradients must differ from 0.

    Raises:
        UserError: a true gradient is 0.

    Source:
        Williams (1992), REINFORCE: a baseline adds nothing on average if it does not depend on the
        action.
    """
    toy = groups.toy
    size = groups.endings.shape[1]
    if toy.gradient.abs().min() < _TOL:
        raise UserError(
            f"toy: the true gradient is {toy.gradient.tolist()}, but the card divides by it. "
            "Choose "
            "rewards so that going on and stopping, and picking well and badly, differ."
        )
    expected, variance = groups.moments(row.estimator(groups))
    even = replace(toy, stop_reward=toy.go_on_reward + toy.second_mean)
    first = _push_and_toll(row.estimator, even, "stop_reward", 0, size)
    even = replace(toy, good_reward=toy.bad_reward)
    second = _push_and_toll(row.estimator, even, "good_reward", 1, size)
    return Measured(
        row=row,
        expected=_pair(expected),
        true=_pair(toy.gradient),
        variance=_pair(variance),
        push=(first[0], second[0]),
        toll=(first[1], second[1]),
        u=1 - 1 / size,
    )


def bias_card(
    toy: Toy | None = None,
    group_size: int = 4,
    similarity: float = 0.6,
    modules: Collection[str] = (),
) -> Iterator[Measured]:
    """Measure all estimators of the card, one after the other.

    Args:
        toy: the problem; by default that of `Toy()`.
        group_size: the number of trajectories of a group, 2 to 64.
        similarity: SPO's cosine between trajectories that stop and trajectories that go on, in
            [0, 1].
        modules: modules of custom estimators; see `bias_rows`.

    Raises:
        UserError: see `measure`; the group size or the similarity is out of range.
    """
    if not 0 <= similarity <= 1:
        raise UserError(f"similarity {similarity}: give a cosine from 0 to 1.")
    groups = ToyGroups.enumerate(toy or Toy(), group_size)
    return (measure(row, groups) for row in bias_rows(similarity, modules))


def _push_and_toll(
    estimator: Decisions, even: Toy, name: str, decision: int, group_size: int
) -> tuple[float, float | None]:
    """Return the push and the toll of a decision.

    Args:
        estimator: the estimator.
        even: a toy in which the decision makes no difference to the expected reward.
        name: the field of the toy with the reward that is shifted to find the toll.
        decision: 0 for going on, 1 for picking well.
        group_size: the number of trajectories of a group.
    """

    def gradient(shift: float) -> float:
        groups = ToyGroups.counted(replace(even, **{name: getattr(even, name) + shift}), group_size)
        return float(groups.moments(estimator(groups))[0][decision])

    push = gradient(0.0)
    if abs(push) < _TOL:
        return push, 0.0
    # One secant step is exact if the gradient is linear in the rewards, as it is for all estimators
    # that do not divide by a standard deviation.
    slope = gradient(1.0) - push
    if abs(slope) < _TOL:
        return push, None
    shift = -push / slope
    if abs(gradient(shift)) > _TOL:
        return push, None
    return push, -shift if name == "stop_reward" else shift


def _pair(x: Tensor) -> tuple[float, float]:
    first, second = torch.round(x, decimals=12).tolist()
    return first, second
