"""Numbers of a run over its benchmarks, with intervals and breakdowns, and the papers it is held against."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from docagent_rl.envs.outcome import RIGHT_FROM
from docagent_rl.lab.eval.metrics.judges import AnswerJudge
from docagent_rl.lab.eval.report.papers import BENCHMARK_ROWS, EVERY, PaperRow, rows_for
from docagent_rl.lab.eval.report.statistics import ALL, DRAWS, Cell, Interval, Row, intervals, sums_of
from docagent_rl.lab.eval.run_facts import expected_trajectories, facts_of
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import (
    CORRECT,
    GENERAL,
    JUDGED,
    NAVIGATION,
    OWN,
    TOOLS,
    USE,
    paper_measures,
    protocol_of,
)
from docagent_rl.lab.eval.scoring.scored import Measure, ScoredTrajectory, Unit, mean


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Settings of a report's numbers."""

    draws: int = DRAWS
    seed: int = 0
    pass_at: tuple[int, ...] = ()
    """Numbers of trajectories of which one has to be right."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a run over the questions of a line."""

    measure: Measure
    row: Row
    interval: Interval
    by: tuple[str, ...] = ()
    """Judges or extractors that it rests on."""

    @property
    def ruled(self) -> bool:
        """True where the embedded rule judge stood in for a model."""
        return Author.RULE.value in self.by

    def data(self) -> dict[str, Any]:
        """Return it as the JSON file has it; no line where it is over every question."""
        line = {} if self.row == ALL else {"by_kind": self.row[0], "line": self.row[1]}
        named = {"measure": self.measure.name, "title": self.measure.title, "unit": self.measure.unit.value}
        judged = {"by": self.by, "rule_judge": self.ruled}
        return {**named, **line, **asdict(self.interval), **judged}


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """A run over one benchmark, in the order of the JSON file."""

    title: str
    systems: tuple[str, ...]
    headline: str
    """Name of the first measure of the benchmark's protocol."""
    questions: int
    documents: int
    trajectories: int
    unscored: int
    """Questions whose right answer is not known; they count for navigation and use alone."""
    masked: dict[str, int]
    """Trajectories that were not played, by reason; they are wrong."""
    answers: tuple[Number, ...]
    """The benchmark's numbers, the headline first, those of the system's paper, the general ones."""
    use: tuple[Number, ...]
    breakdowns: tuple[Number, ...]
    """The headline, and the number of the system's paper, by line of the breakdowns."""
    pass_at: dict[int, Interval]
    verdicts: dict[str, dict[str, int]]
    """Counts of verdicts by judge; `none` where there was no answer, or the judge failed; `not asked` of
    answers that the rule of the system's paper keeps from it, and counts as wrong."""
    judge_failures: dict[str, int]

    def number(self, measure: str, row: Row = ALL) -> Number | None:
        """Return a number by name and line."""
        every = (*self.answers, *self.use, *self.breakdowns)
        return next((each for each in every if each.measure.name == measure and each.row == row), None)


def benchmark(
    dataset: str, trajectories: Sequence[ScoredTrajectory], settings: ReportSettings
) -> BenchmarkReport:
    """Report on the trajectories of one benchmark."""
    answers = answer_measures(dataset, trajectories)
    # the environments' own numbers, under the names that the trainer logs
    own = sorted({name for each in trajectories for name in each.values if name.startswith(OWN)})
    means = [mean(name, name.removeprefix(OWN), unit=Unit.NUMBER) for name in own]
    use = (*NAVIGATION, *TOOLS, *USE, *means)
    # broken down are the headline, numbers of the systems' papers, and those of a judge that was asked beside
    judged = [
        each for each in (JUDGED, CORRECT) if any(s.values.get(each.value) is not None for s in trajectories)
    ]
    broken_down = _distinct(protocol_of(dataset).headline, *_papers(trajectories), *judged)
    lines = sorted({row for each in trajectories if each.scored for row in rows_of(each)})
    cells = [Cell(measure) for measure in (*answers, *use)]
    cells += [Cell(measure, row) for row in lines for measure in broken_down]
    found = intervals(sums_of(trajectories, cells, rows_of), draws=settings.draws, seed=settings.seed)
    by = {measure.name: authors(measure, trajectories) for measure in answers}
    numbers = [
        Number(cell.measure, cell.row, interval, by.get(cell.measure.name, ()))
        for cell, interval in zip(cells, found, strict=True)
        if interval.questions
    ]
    whole, names = [each for each in numbers if each.row == ALL], {measure.name for measure in use}
    return BenchmarkReport(
        title=protocol_of(dataset).name,
        systems=tuple(sorted({each.system for each in trajectories})),
        headline=answers[0].name,
        questions=len({each.question_id for each in trajectories}),
        documents=len({each.document for each in trajectories}),
        trajectories=len(trajectories),
        unscored=len({each.question_id for each in trajectories if not each.scored}),
        masked=_counted(each.reason for each in trajectories if each.status == "masked"),
        answers=tuple(each for each in whole if each.measure.name not in names),
        use=tuple(each for each in whole if each.measure.name in names),
        breakdowns=tuple(each for each in numbers if each.row != ALL),
        pass_at={k: pass_at(trajectories, answers[0], k, settings) for k in settings.pass_at},
        verdicts=_verdicts(trajectories),
        judge_failures=_counted(
            n for each in trajectories for n, opinion in each.experts.items() if opinion["failed"]
        ),
    )


def answer_measures(dataset: str, trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    """Return the measures of the benchmark, of the systems' papers, of other judges, and the general ones."""
    return _distinct(*protocol_of(dataset).measures, *_papers(trajectories), JUDGED, CORRECT, *GENERAL)


def rows_of(trajectory: ScoredTrajectory) -> list[Row]:
    """Return the lines of the breakdowns that a trajectory stands in.

    Lines of the benchmark's own table that a label stands for already, such as `source/Table`, are left out.
    """
    own = [(BENCHMARK_ROWS, group) for group in trajectory.groups if "/" not in group]
    return [(kind, value) for kind, values in trajectory.labels.items() for value in values] + own


def pass_at(
    trajectories: Sequence[ScoredTrajectory], measure: Measure, k: int, settings: ReportSettings
) -> Interval:
    """Return the unbiased probability that one of `k` trajectories of a question is right.

    It is `1 - C(n - c, k) / C(n, k)` with `c` of `n` trajectories right (arXiv 2107.03374, Eq. 1). Questions
    with fewer than `k` trajectories are left out.
    """
    rounds: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in trajectories:
        if trajectory.values.get(measure.value) is not None:
            rounds.setdefault(trajectory.question_id, []).append(trajectory)
    found = []
    for tried in (each for each in rounds.values() if len(each) >= k):
        right = sum((each.values.get(measure.value) or 0.0) >= RIGHT_FROM for each in tried)
        value = 1.0 - math.comb(len(tried) - right, k) / math.comb(len(tried), k)
        found.append(replace(tried[0], values={"pass": value}))
    sums = sums_of(found, [Cell(mean("pass", f"pass@{k}"))])
    return intervals(sums, draws=settings.draws, seed=settings.seed)[0]


def authors(measure: Measure, trajectories: Iterable[ScoredTrajectory]) -> tuple[str, ...]:
    """Return the names of those whose opinions a number rests on."""
    if measure.name == "rule":
        return (Author.RULE.value,)
    if measure.expert is None:
        return ()
    opinions = (each.experts.get(measure.expert.value) for each in trajectories)
    return tuple(sorted({opinion["by"] for opinion in opinions if opinion} - {Author.NOBODY.value}))


def _papers(trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    systems = sorted({each.system for each in trajectories})
    return [measure for name in systems for measure in paper_measures(name)]


def _distinct(*measures: Measure) -> list[Measure]:
    return list({measure.name: measure for measure in measures}.values())


def _counted(names: Iterable[str]) -> dict[str, int]:
    return dict(sorted(Counter(names).items()))


def _verdicts(trajectories: Sequence[ScoredTrajectory]) -> dict[str, dict[str, int]]:
    found = {}
    for judge in AnswerJudge:
        judged = [each for each in trajectories if judge in each.experts]
        if not judged:
            continue
        by_rule = any(each.experts[judge]["by"] == Author.RULE.value for each in judged)
        name = f"{judge.value} (by the {Author.RULE.value})" if by_rule else judge.value
        found[name] = _counted(_verdict(each, judge) for each in judged)
    return found


def _verdict(trajectory: ScoredTrajectory, judge: AnswerJudge) -> str:
    opinion = trajectory.experts[judge]
    if opinion["value"] is not None:
        return str(opinion["value"])
    unasked = opinion["by"] == Author.NOBODY.value and trajectory.answer is not None
    return "not asked" if unasked else "none"


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A scored run: its short name, unique in a report, its trajectories and its `run.json`."""

    name: str
    trajectories: Sequence[ScoredTrajectory]
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run over all of its benchmarks, in alphabetical order."""

    name: str
    agent: str
    trajectories: int
    expected_trajectories: int | None
    """Trajectories of the whole run; `None` where its description does not say."""
    facts: dict[str, str]
    """Facts that its numbers rest on, by name, with those who judged."""
    benchmarks: dict[str, BenchmarkReport]
    papers: tuple[PaperRow, ...]
    """Rows that it is held against."""
    overall: dict[str, Number]
    """Numbers over all questions of the benchmarks of a paper's row, where the run has them all, by title."""


def report_on(run: ScoredRun, settings: ReportSettings) -> RunReport:
    """Report on one run."""
    by_dataset: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in run.trajectories:
        by_dataset.setdefault(trajectory.dataset, []).append(trajectory)
    benchmarks = {name: benchmark(name, by_dataset[name], settings) for name in sorted(by_dataset)}
    first, facts = next(iter(run.trajectories), None), facts_of(run.manifest)
    papers = () if first is None else tuple(rows_for(run.manifest.get("recipe"), first.system))
    judges = {by for each in benchmarks.values() for number in each.answers for by in number.by}
    overall = {}
    for row in papers:
        if overall_value(row) is not None and row.datasets() <= benchmarks.keys():
            # over all questions, whichever benchmark they are of
            chosen = [each for each in run.trajectories if each.dataset in row.datasets()]
            sums = sums_of(chosen, [Cell(JUDGED)])
            (interval,) = intervals(sums, draws=settings.draws, seed=settings.seed)
            overall[overall_title(row)] = Number(JUDGED, ALL, interval, authors(JUDGED, chosen))
    return RunReport(
        name=run.name,
        agent="unknown" if first is None else first.agent,
        trajectories=len(run.trajectories),
        expected_trajectories=expected_trajectories(run.manifest),
        facts=facts | ({"judge or extractor": ", ".join(sorted(judges))} if judges else {}),
        benchmarks=benchmarks,
        papers=papers,
        overall=overall,
    )


def overall_title(row: PaperRow) -> str:
    """Return the title of the number over all benchmarks of a paper's row."""
    *names, last = (protocol_of(dataset).name for dataset in sorted(row.datasets()))
    return f"{JUDGED.title}, over {', '.join(names)} and {last}"


def overall_value(row: PaperRow) -> float | None:
    """Return what a paper prints over all of its benchmarks."""
    printed = (each.value for each in row.numbers if (each.dataset, each.row) == (EVERY, ALL))
    return next(printed, None)
