"""Summarise results: the gain of each estimator and arm, and whether it is more than chance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from learning.choices import Arm, Estimator
from learning.results import RunResult
from learning.statistics import Interval, over_seeds, paired_gain


@dataclass(frozen=True, slots=True)
class Summary:
    """The results of one estimator and arm over all seeds.

    Args:
        estimator: the estimator.
        arm: the rewards on which the runs trained.
        seeds: the seeds.
        before: held-out reward of the warm starts, over the seeds.
        after: held-out reward after training, over the seeds.
        gain: held-out reward after minus before, over the seeds.
        gains: the gain of each seed, over its questions.
        accuracy: share of right answers after training, over the seeds.
        blank: share of right answers on blank pages after training, over the seeds.
    """

    estimator: Estimator
    arm: Arm
    seeds: tuple[int, ...]
    before: Interval
    after: Interval
    gain: Interval
    gains: tuple[Interval, ...]
    accuracy: Interval
    blank: Interval

    @property
    def learns(self) -> bool:
        """Return whether the gain is above 0 for every seed and, if several, over the seeds."""
        several = len(self.seeds) > 1
        return all(gain.above_zero for gain in self.gains) and (self.gain.above_zero or not several)


def summarise(results: Iterable[RunResult]) -> list[Summary]:
    """Return one summary for each estimator and arm, in the order of their definitions."""
    groups: dict[tuple[Estimator, Arm], list[RunResult]] = {}
    for result in sorted(results, key=lambda r: r.seed):
        groups.setdefault((result.estimator, result.arm), []).append(result)
    order = [(estimator, arm) for estimator in Estimator for arm in Arm]
    return [_summary(groups[key]) for key in order if key in groups]


def _summary(runs: Sequence[RunResult]) -> Summary:
    return Summary(
        estimator=runs[0].estimator,
        arm=runs[0].arm,
        seeds=tuple(run.seed for run in runs),
        before=over_seeds([run.before.mean for run in runs]),
        after=over_seeds([run.after.mean for run in runs]),
        gain=over_seeds([run.gain for run in runs]),
        gains=tuple(paired_gain(run.before.reward, run.after.reward) for run in runs),
        accuracy=over_seeds([run.after.accuracy for run in runs]),
        blank=over_seeds([run.blank_after.accuracy for run in runs]),
    )
