"""Runs compared where their responses have moved equally far from the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from statistics import fmean, stdev

from anchoring.results import Arm, Point, Run


@dataclass(frozen=True, slots=True)
class Spread:
    """A number over the seeds.

    Args:
        mean: of all seeds.
        deviation: sample standard deviation; 0 for a single seed.
        low: smallest.
        high: largest.
    """

    mean: float
    deviation: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Make it of at least one value."""
        return cls(
            fmean(values), stdev(values) if len(values) > 1 else 0.0, min(values), max(values)
        )


def at_response_kl(run: Run, target: float) -> Point | None:
    """The run where its response KL first reaches a value, linear between two updates; None if it
    never does.

    Numbers of updates come out as fractions.
    """
    if run.points[0].response_kl >= target:
        return run.points[0]
    for before, after in pairwise(run.points):
        if after.response_kl >= target:
            share = (target - before.response_kl) / (after.response_kl - before.response_kl)
            return Point(
                **{
                    each.name: (1 - share) * getattr(before, each.name)
                    + share * getattr(after, each.name)
                    for each in fields(Point)
                }
            )
    return None


def reach(runs: Sequence[Run]) -> float:
    """The largest response KL that every run passes."""
    return min(max(point.response_kl for point in run.points) for run in runs)


def spread_at(runs: Sequence[Run], arm: Arm, target: float, name: str) -> Spread:
    """A field of `Point` over the seeds of an arm, at a response KL.

    Raises:
        ValueError: a run does not get that far.
    """
    points = [at_response_kl(run, target) for run in runs if run.arm is arm]
    reached = [point for point in points if point is not None]
    if not reached or len(reached) < len(points):
        raise ValueError(f"a run of {arm.value} does not reach a response KL of {target}")
    return spread_of(reached, name)


def spread_of(points: Sequence[Point], name: str) -> Spread:
    """A field of points, one a seed."""
    return Spread.of([getattr(point, name) for point in points])
