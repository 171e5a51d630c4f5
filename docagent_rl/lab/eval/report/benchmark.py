"""Numbers of one run over one benchmark, with intervals and breakdowns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from docagent_rl.lab.eval.metrics.judges import Agreement, AnswerJudge, agreement
from docagent_rl.lab.eval.report.papers import BENCHMARK_ROWS
from docagent_rl.lab.eval.report.statistics import ALL, DRAWS, Cell, Interval, Row, intervals, sums_of
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.labels import rows_of as label_rows
from docagent_rl.lab.eval.scoring.measures import Measure, mean
from docagent_rl.lab.eval.scoring.protocols import CORRECT, GENERAL, JUDGED, paper_measures, protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory
from docagent_rl.lab.eval.scoring.use import NAVIGATION, TOOLS, USE

RIGHT = 0.5
"""A trajectory counts as right from here on, where scores are graded and a yes or no is asked for."""


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """How numbers are made.

    Args:
        draws: resamples of documents.
        seed: of them.
        pass_at: numbers of trajectories of which one has to be right.
    """

    draws: int = DRAWS
    seed: int = 0
    pass_at: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a run.

    Args:
        measure: that it is of.
        row: the questions it is over.
        interval: its value.
        by: who judged or extracted, where somebody had to.
    """

    measure: Measure
    row: Row
    interval: Interval
    by: tuple[str, ...] = ()

    @property
    def ruled(self) -> bool:
        """Whether the embedded rule judge stood in for a model."""
        return Author.RULE.value in self.by


@dataclass(frozen=True, slots=True)
class Spread:
    """The spread of a number over trajectories; `None` of nothing."""

    mean: float | None
    median: float | None
    p95: float | None
    worst: float | None

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of values; percentiles are interpolated."""
        if not values:
            return cls(None, None, None, None)
        median, p95 = np.percentile(values, [50, 95])
        return cls(math.fsum(values) / len(values), float(median), float(p95), max(values))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean and the count of numbers in it; `None` of nothing."""

    value: float | None
    count: int


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """A run over one benchmark.

    Args:
        dataset: as samples name it.
        title: as people do.
        systems: that were played.
        questions: in it.
        documents: that they are about.
        trajectories: of all questions.
        unscored: questions whose right answer is not known; they count for navigation and use alone.
        masked: trajectories that were not played, by reason; they are wrong.
        answers: the benchmark's numbers, the headline first, those of the system's paper, the general ones.
        use: navigation and use.
        parts: the headline, and the number of the system's paper, by line of the breakdowns.
        pass_at: by number of trajectories.
        seconds: how the trajectories that were played are spread over time.
        total_cost: of all trajectories; `None` without a price.
        agreements: of two judges, by expert: the judges' names and how far they agree.
        verdicts: how often a judge said what, by expert; `none` where there was no answer, or it failed.
        failures: judgements that failed, by expert.
        environment: means of the environments' own numbers over the trajectories played.
    """

    dataset: str
    title: str
    systems: tuple[str, ...]
    questions: int
    documents: int
    trajectories: int
    unscored: int
    masked: dict[str, int]
    answers: tuple[Number, ...]
    use: tuple[Number, ...]
    parts: tuple[Number, ...]
    pass_at: dict[int, Interval]
    seconds: Spread
    total_cost: float | None
    agreements: dict[str, tuple[str, str, Agreement]]
    verdicts: dict[str, dict[str, int]]
    failures: dict[str, int]
    environment: dict[str, Mean]

    @property
    def headline(self) -> Measure:
        """The number that stands for it."""
        return protocol_of(self.dataset).headline

    def number(self, measure: str, row: Row = ALL) -> Number | None:
        """Return a number by name and line."""
        every = (*self.answers, *self.use, *self.parts)
        return next((each for each in every if each.measure.name == measure and each.row == row), None)


def benchmark(
    dataset: str, trajectories: Sequence[ScoredTrajectory], settings: ReportSettings
) -> BenchmarkReport:
    """Report on the trajectories of one benchmark."""
    answers, use = answer_measures(dataset, trajectories), (*NAVIGATION, *TOOLS, *USE)
    numbers = _numbers(answers, use, _broken_down(dataset, trajectories), trajectories, settings)
    whole, names = [each for each in numbers if each.row == ALL], {measure.name for measure in use}
    played = [each for each in trajectories if each.status != "masked"]
    costs = _values("cost", trajectories)
    return BenchmarkReport(
        dataset=dataset,
        title=protocol_of(dataset).name,
        systems=tuple(sorted({each.system for each in trajectories})),
        questions=len({each.question_id for each in trajectories}),
        documents=len({each.document for each in trajectories}),
        trajectories=len(trajectories),
        unscored=len({each.question_id for each in trajectories if not each.scored}),
        masked=_counted(each.reason for each in trajectories if each.status == "masked"),
        answers=tuple(each for each in whole if each.measure.name not in names),
        use=tuple(each for each in whole if each.measure.name in names),
        parts=tuple(each for each in numbers if each.row != ALL),
        pass_at={k: pass_at(trajectories, answers[0], k, settings) for k in settings.pass_at},
        seconds=Spread.of(_values("seconds", trajectories)),
        total_cost=math.fsum(costs) if costs else None,
        agreements=_agreements(trajectories),
        verdicts=_verdicts(trajectories),
        failures=_counted(
            n for each in trajectories for n, opinion in each.experts.items() if opinion["failed"]
        ),
        environment=_means([each.environment for each in played]),
    )


def answer_measures(dataset: str, trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    """Return measures: the benchmark's, of the systems' papers, of judges asked beside, general ones."""
    return _distinct(*protocol_of(dataset).measures, *_papers(trajectories), JUDGED, CORRECT, *GENERAL)


def rows_of(trajectory: ScoredTrajectory) -> list[Row]:
    """Return the lines of the breakdowns that a trajectory stands in.

    Lines of the benchmark's own table that a label stands for already, such as `source/Table`, are left out.
    """
    own = [(BENCHMARK_ROWS, group) for group in trajectory.groups if "/" not in group]
    return label_rows(trajectory.labels) + own


def pass_at(
    trajectories: Sequence[ScoredTrajectory], measure: Measure, k: int, settings: ReportSettings
) -> Interval:
    """Return how likely one of `k` trajectories of a question is right, without bias from the trajectories
    there are.

    `1 - C(n - c, k) / C(n, k)` with `c` of `n` trajectories right (arXiv 2107.03374, Eq. 1). Questions with
    fewer than `k` trajectories are left out.
    """
    rounds: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in trajectories:
        if measure.of(trajectory.values) is not None:
            rounds.setdefault(trajectory.question_id, []).append(trajectory)
    found = []
    for tried in (each for each in rounds.values() if len(each) >= k):
        right = sum((measure.of(each.values) or 0.0) >= RIGHT for each in tried)
        value = 1.0 - math.comb(len(tried) - right, k) / math.comb(len(tried), k)
        found.append(replace(tried[0], values={"pass": value}))
    sums = sums_of(found, [Cell(mean("pass", f"pass@{k}"))])
    return intervals(sums, draws=settings.draws, seed=settings.seed)[0]


def authors(measure: Measure, trajectories: Iterable[ScoredTrajectory]) -> tuple[str, ...]:
    """Return who gave the opinions that a number rests on."""
    if measure.name == "rule":
        return (Author.RULE.value,)
    if measure.expert is None:
        return ()
    opinions = (each.experts.get(measure.expert.value) for each in trajectories)
    return tuple(sorted({opinion["by"] for opinion in opinions if opinion} - {Author.NOBODY.value}))


def _numbers(
    answers: Sequence[Measure],
    use: Sequence[Measure],
    broken_down: Sequence[Measure],
    trajectories: Sequence[ScoredTrajectory],
    settings: ReportSettings,
) -> list[Number]:
    lines = sorted({row for each in trajectories if each.scored for row in rows_of(each)})
    cells = [Cell(measure) for measure in (*answers, *use)]
    cells += [Cell(measure, row) for row in lines for measure in broken_down]
    found = intervals(sums_of(trajectories, cells, rows_of), draws=settings.draws, seed=settings.seed)
    by = {measure.name: authors(measure, trajectories) for measure in answers}
    return [
        Number(cell.measure, cell.row, interval, by.get(cell.measure.name, ()))
        for cell, interval in zip(cells, found, strict=True)
        if interval.questions or (cell.row == ALL and cell.measure.expert and by[cell.measure.name])
    ]


def _broken_down(dataset: str, trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    """Return the headline, what the systems' papers break down, and what a judge was asked beside."""
    judged = [each for each in (JUDGED, CORRECT) if any(each.of(s.values) is not None for s in trajectories)]
    return _distinct(protocol_of(dataset).headline, *_papers(trajectories), *judged)


def _papers(trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    systems = sorted({each.system for each in trajectories})
    return [measure for name in systems for measure in paper_measures(name)]


def _distinct(*measures: Measure) -> list[Measure]:
    return list({measure.name: measure for measure in measures}.values())


def _values(name: str, trajectories: Sequence[ScoredTrajectory]) -> list[float]:
    return [value for each in trajectories if (value := each.values.get(name)) is not None]


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _means(rows: Sequence[Mapping[str, float | None]]) -> dict[str, Mean]:
    """Return the mean of every number that some row has, by its name."""
    found = {}
    for name in sorted({name for row in rows for name in row}):
        values = [value for row in rows if (value := row.get(name)) is not None]
        found[name] = Mean(math.fsum(values) / len(values) if values else None, len(values))
    return found


def _agreements(trajectories: Sequence[ScoredTrajectory]) -> dict[str, tuple[str, str, Agreement]]:
    found = {}
    for judge in AnswerJudge:
        pairs = [(each.experts.get(judge.value), each.second.get(judge.value)) for each in trajectories]
        judged = [(a, b) for a, b in pairs if a and b and Author.NOBODY.value not in (a["by"], b["by"])]
        if judged:
            one, other = (" and ".join(sorted({pair[side]["by"] for pair in judged})) for side in (0, 1))
            verdicts = agreement([a["value"] for a, _ in judged], [b["value"] for _, b in judged])
            found[judge.value] = (one, other, verdicts)
    return found


def _verdicts(trajectories: Sequence[ScoredTrajectory]) -> dict[str, dict[str, int]]:
    found = {}
    for judge in AnswerJudge:
        values = [each.experts[judge.value]["value"] for each in trajectories if judge.value in each.experts]
        if values:
            found[judge.value] = _counted("none" if value is None else str(value) for value in values)
    return found
