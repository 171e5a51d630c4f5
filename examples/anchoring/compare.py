"""Compare runs at points where their responses have moved equally far from the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from statistics import fmean, stdev

from anchoring.results import Arm, Point, Run


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of a number over the seeds.

    Args:
        mean: the mean.
        deviation: the sample standard deviation; 0 for a single seed.
        low: the smallest value.
        high: the largest value.
    """

    mean: float
    deviation: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Compute it from the values of the seeds, of which there must be at least one."""
        return cls(
            fmean(values), stdev(values) if len(values) > 1 else 0.0, min(values), max(values)
        )


def at_response_kl(run: Run, target: float) -> Point | None:
    """Return the measurements of a run where its response KL first reaches `target`.

    They are interpolated linearly between two updates, so that the number of updates is a fraction.
    None if the run never reaches the target.
    """
    if run.points[0].response_kl >= target:
        return run.points[0]
    for before, after in pairwise(run.points):
        if after.response_kl >= target:
            share = (target - before.response_kl) / (after.response_kl - before.response_kl)
            return _between(before, after, share)
    return None


def _between(before: Point, after: Point, share: float) -> Point:
    """Interpolate all fields of two points linearly; a share of 0 gives the first point."""
    values = {}
    for each in fields(Point):
        begin = getattr(before, each.name)
        end = getattr(after, each.name)
        values[each.name] = (1 - share) * begin + share * end
    return Point(**values)


def reach(runs: Sequence[Run]) -> float:
    """Return the largest response KL that every run reaches."""
    return min(max(point.response_kl for point in run.points) for run in runs)


def spread_at(runs: Sequence[Run], arm: Arm, target: float, name: str) -> Spread:
    """Return the spread of a field of `Point` over the seeds of an arm, at a response KL.

    Raises:
        ValueError: a run does not reach that response KL.
    """
    points = [at_response_kl(run, target) for run in runs if run.arm is arm]
    reached = [point for point in points if point is not None]
    if not reached or len(reached) < len(points):
        raise ValueError(f"a run of {arm.value} does not reach a response KL of {target}")
    return spread_of(reached, name)


def spread_of(points: Sequence[Point], name: str) -> Spread:
    """Return the spread of a field of points, one for each seed."""
    return Spread.of([getattr(point, name) for point in points])
