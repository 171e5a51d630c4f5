"""From scored runs to a report: numbers by benchmark, beside the paper's, with intervals and breakdowns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from docagent_rl.lab.eval.metrics.agreement import Agreement, agreement
from docagent_rl.lab.eval.metrics.prompt_files import AnswerJudge
from docagent_rl.lab.eval.metrics.scored import Mean, mean_of_each
from docagent_rl.lab.eval.metrics.sessions import Spread
from docagent_rl.lab.eval.report.bootstrap import DRAWS, Interval, intervals
from docagent_rl.lab.eval.report.facts import RunFacts
from docagent_rl.lab.eval.report.sums import ALL, Cell, Row, sums_of
from docagent_rl.lab.eval.report.targets import BENCHMARK_ROWS
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.labels import flat
from docagent_rl.lab.eval.scoring.measures import Measure, Values, mean
from docagent_rl.lab.eval.scoring.numbers import NAVIGATION, TOOLS, USE
from docagent_rl.lab.eval.scoring.protocols import CORRECT, GENERAL, JUDGED, paper_measures, protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredSession

RIGHT = 0.5
"""A session counts as right from here on, where scores are graded and a yes or no is asked for."""


@dataclass(frozen=True, slots=True)
class ScoredRun:
    """A run that is reported on.

    Args:
        name: short, one of a kind.
        sessions: scored.
        manifest: its `run.json`.
    """

    name: str
    sessions: Sequence[ScoredSession]
    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """How numbers are made.

    Args:
        draws: resamples of documents.
        seed: of them.
        pass_at: numbers of sessions of which one has to be right.
    """

    draws: int = DRAWS
    seed: int = 0
    pass_at: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a run.

    Args:
        measure: what it is.
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
class BenchmarkReport:
    """A run over one benchmark.

    Args:
        dataset: as records name it.
        title: as people do.
        systems: that were played.
        questions: in it.
        documents: that they are about.
        sessions: of all questions.
        unscored: questions whose right answer is not known; they count for navigation and use alone.
        masked: sessions that were not played, by reason; they are wrong.
        answers: the benchmark's numbers, the headline first, those of the system's paper, the general ones.
        use: navigation and use.
        parts: the headline, and the number of the system's paper, by line of the breakdowns.
        pass_at: by number of sessions.
        seconds: how the sessions that were played are spread over time.
        total_cost: of all sessions; `None` without a price.
        agreements: of two judges, by expert: the judges' names and how far they agree.
        verdicts: how often a judge said what, by expert; `none` where there was no answer, or it failed.
        failures: judgements that failed, by expert.
        environment: means of the environments' own numbers over the sessions played.
    """

    dataset: str
    title: str
    systems: tuple[str, ...]
    questions: int
    documents: int
    sessions: int
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
        """A number by name and line."""
        every = (*self.answers, *self.use, *self.parts)
        return next((each for each in every if each.measure.name == measure and each.row == row), None)


@dataclass(frozen=True, slots=True)
class RunReport:
    """A run over all of its benchmarks.

    Args:
        name: of the run.
        agent: who played.
        facts: how.
        benchmarks: in alphabetical order.
        sessions: that it has.
        expected: that it has when it is whole; `None` where its description does not say.
    """

    name: str
    agent: str
    facts: RunFacts
    benchmarks: tuple[BenchmarkReport, ...]
    sessions: int
    expected: int | None


def report_on(run: ScoredRun, settings: ReportSettings) -> RunReport:
    """Report on one run."""
    by_dataset: dict[str, list[ScoredSession]] = {}
    for session in run.sessions:
        by_dataset.setdefault(session.dataset, []).append(session)
    return RunReport(
        name=run.name,
        agent=run.sessions[0].agent if run.sessions else "unknown",
        facts=RunFacts.of(run.manifest),
        benchmarks=tuple(benchmark(name, by_dataset[name], settings) for name in sorted(by_dataset)),
        sessions=len(run.sessions),
        expected=expected_sessions(run.manifest),
    )


def expected_sessions(manifest: Mapping[str, Any]) -> int | None:
    """Sessions of a whole run, as its description has them; `None` where it does not say."""
    questions, times = manifest.get("questions"), manifest.get("sessions")
    count = questions.get("count") if isinstance(questions, Mapping) else questions
    return count * times if type(count) is int and type(times) is int else None


def benchmark(dataset: str, sessions: Sequence[ScoredSession], settings: ReportSettings) -> BenchmarkReport:
    """Report on the sessions of one benchmark."""
    systems = tuple(sorted({each.system for each in sessions}))
    answers = answer_measures(dataset, sessions)
    use = (*NAVIGATION, *TOOLS, *USE)
    shown = broken_down(dataset, sessions)
    lines = sorted({row for each in sessions if each.scored for row in rows_of(each)})
    cells = [Cell(measure) for measure in (*answers, *use)]
    cells += [Cell(measure, row) for row in lines for measure in shown]
    sums = sums_of(sessions, cells, rows_of)
    found = intervals(sums, draws=settings.draws, seed=settings.seed)
    told = {measure.name: authors(measure, sessions) for measure in answers}
    numbers = [
        Number(cell.measure, cell.row, interval, told.get(cell.measure.name, ()))
        for cell, interval in zip(cells, found, strict=True)
        if interval.questions or (cell.row == ALL and cell.measure.expert and told[cell.measure.name])
    ]
    names = {measure.name for measure in use}
    costs, seconds = (
        [value for each in sessions if (value := each.values.get(name)) is not None]
        for name in ("cost", "seconds")
    )
    return BenchmarkReport(
        dataset=dataset,
        title=protocol_of(dataset).name,
        systems=systems,
        questions=len({each.question_id for each in sessions}),
        documents=len({each.document for each in sessions}),
        sessions=len(sessions),
        unscored=len({each.question_id for each in sessions if not each.scored}),
        masked=dict(sorted(Counter(each.reason for each in sessions if each.status == "masked").items())),
        answers=tuple(n for n in numbers if n.row == ALL and n.measure.name not in names),
        use=tuple(n for n in numbers if n.row == ALL and n.measure.name in names),
        parts=tuple(n for n in numbers if n.row != ALL),
        pass_at={k: pass_at(sessions, answers[0], k, settings) for k in settings.pass_at},
        seconds=Spread.of(seconds),
        total_cost=math.fsum(costs) if costs else None,
        agreements=_agreements(sessions),
        verdicts=_verdicts(sessions),
        failures=_failures(sessions),
        environment=mean_of_each(each.environment for each in sessions if each.status != "masked"),
    )


def answer_measures(dataset: str, sessions: Sequence[ScoredSession]) -> list[Measure]:
    """The benchmark's own, those of the systems' papers, of judges asked beside, the general ones."""
    every = [*protocol_of(dataset).measures, *_papers(sessions), JUDGED, CORRECT, *GENERAL]
    return list({measure.name: measure for measure in every}.values())


def broken_down(dataset: str, sessions: Sequence[ScoredSession]) -> list[Measure]:
    """The headline, what the systems' papers break down, and what a judge was asked beside, of all agents."""
    judged = [each for each in (JUDGED, CORRECT) if any(each.of(s.values) is not None for s in sessions)]
    every = [protocol_of(dataset).headline, *_papers(sessions), *judged]
    return list({measure.name: measure for measure in every}.values())


def without_unread(sessions: Sequence[ScoredSession]) -> list[ScoredSession]:
    """Sessions without the values that rest on an expert of whom no reply to a benchmark could be read.

    One that is read sometimes is wrong where it failed; one that never is says nothing about the answers.
    """
    asked: dict[tuple[str, str], list[bool]] = {}
    for each in sessions:
        for name, opinion in each.experts.items():
            if opinion["by"] != Author.NOBODY.value:
                asked.setdefault((each.dataset, name), []).append(opinion["failed"])
    unread = {key for key, failed in asked.items() if all(failed)}
    resting = {
        dataset: {
            measure.value
            for measure in answer_measures(dataset, [each for each in sessions if each.dataset == dataset])
            if measure.expert is not None and (dataset, measure.expert.value) in unread
        }
        for dataset, _ in unread
    }
    return [
        replace(each, values={**each.values, **dict.fromkeys(resting.get(each.dataset, ()))})
        for each in sessions
    ]


def _papers(sessions: Sequence[ScoredSession]) -> list[Measure]:
    systems = sorted({each.system for each in sessions})
    return [measure for name in systems for measure in paper_measures(name)]


def rows_of(session: ScoredSession) -> list[Row]:
    """Lines of the breakdowns that a session stands in.

    Lines of the benchmark's own table that a label stands for already, such as `source/Table`, are left out.
    """
    return flat(session.labels) + [(BENCHMARK_ROWS, group) for group in session.groups if "/" not in group]


def pass_at(
    sessions: Sequence[ScoredSession], measure: Measure, k: int, settings: ReportSettings
) -> Interval:
    """How likely one of `k` sessions of a question is right, without bias from the sessions there are.

    `1 - C(n - c, k) / C(n, k)` with `c` of `n` sessions right (arXiv 2107.03374, Eq. 1). Questions with fewer
    than `k` sessions are left out.
    """
    rounds: dict[str, list[ScoredSession]] = {}
    for session in sessions:
        if measure.of(session.values) is not None:
            rounds.setdefault(session.question_id, []).append(session)
    found = []
    for tried in rounds.values():
        if len(tried) < k:
            continue
        right = sum((measure.of(each.values) or 0.0) >= RIGHT for each in tried)
        value = 1.0 - math.comb(len(tried) - right, k) / math.comb(len(tried), k)
        values: Values = {"pass": value}
        found.append(replace(tried[0], values=dict(values)))
    cell = Cell(mean("pass", f"pass@{k}"))
    return intervals(sums_of(found, [cell]), draws=settings.draws, seed=settings.seed)[0]


def authors(measure: Measure, sessions: Sequence[ScoredSession]) -> tuple[str, ...]:
    """Who gave the opinions that a number rests on."""
    if measure.name == "rule":
        return (Author.RULE.value,)
    if measure.expert is None:
        return ()
    told = (each.experts.get(measure.expert.value) for each in sessions)
    return tuple(sorted({opinion["by"] for opinion in told if opinion} - {Author.NOBODY.value}))


def _agreements(sessions: Sequence[ScoredSession]) -> dict[str, tuple[str, str, Agreement]]:
    found = {}
    for judge in AnswerJudge:
        pairs = [(each.experts.get(judge.value), each.second.get(judge.value)) for each in sessions]
        there = [(a, b) for a, b in pairs if a and b and Author.NOBODY.value not in (a["by"], b["by"])]
        if there:
            names = [" and ".join(sorted({pair[place]["by"] for pair in there})) for place in (0, 1)]
            told = agreement([a["value"] for a, _ in there], [b["value"] for _, b in there])
            found[judge.value] = (names[0], names[1], told)
    return found


def _verdicts(sessions: Sequence[ScoredSession]) -> dict[str, dict[str, int]]:
    found = {}
    for judge in AnswerJudge:
        told = [each.experts[judge.value]["value"] for each in sessions if judge.value in each.experts]
        counted = Counter("none" if value is None else str(value) for value in told)
        if counted:
            found[judge.value] = dict(sorted(counted.items()))
    return found


def _failures(sessions: Sequence[ScoredSession]) -> dict[str, int]:
    failed = Counter(name for each in sessions for name, told in each.experts.items() if told["failed"])
    return dict(sorted(failed.items()))
