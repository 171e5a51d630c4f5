"""Numbers of a run on one benchmark, with intervals and breakdowns."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from docagent_rl.envs.outcome import RIGHT_FROM
from docagent_rl.lab.eval.metrics.judges import AnswerJudge
from docagent_rl.lab.eval.report.papers import BENCHMARK_ROWS
from docagent_rl.lab.eval.report.statistics import (
    ALL,
    DRAWS,
    Cell,
    Interval,
    Row,
    intervals,
    sums_of,
)
from docagent_rl.lab.eval.scoring.protocols import (
    CORRECT,
    GENERAL,
    JUDGED,
    NAVIGATION,
    OWN,
    TOOLS,
    USE,
    Protocol,
    paper_measures,
    protocol_of,
)
from docagent_rl.lab.eval.scoring.roles import Author
from docagent_rl.lab.eval.scoring.scored import Measure, ScoredTrajectory, Unit, mean

_REPEATED = {
    "turns": "turns",
    "finished": "finished",
    "image_tokens": "image_tokens",
    "invalid_action_rate": "invalid_rate",
    "pages_seen": "unique_pages",
    "retrieval_recall": "page_recall",
}
"""Numbers of environments that usually repeat a value of `NAVIGATION` or `USE`: this one."""


@dataclass(frozen=True, slots=True)
class ReportSettings:
    """Settings for the numbers of a report."""

    draws: int = DRAWS
    seed: int = 0
    pass_at: tuple[int, ...] = ()
    """Values of `k` in pass@k: one of `k` trajectories must be right."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a run over the questions of one line."""

    measure: Measure
    row: Row
    interval: Interval
    by: tuple[str, ...] = ()
    """Judges or extractors on whose replies it rests."""

    @property
    def ruled(self) -> bool:
        """True if the embedded rule judge took the place of a model."""
        return Author.RULE.value in self.by

    def data(self) -> dict[str, Any]:
        """Return the number as in the JSON file; without a line if it covers every question."""
        line = {} if self.row == ALL else {"by_kind": self.row[0], "line": self.row[1]}
        named = {
            "measure": self.measure.name,
            "title": self.measure.title,
            "unit": self.measure.unit.value,
        }
        judged = {"by": self.by, "rule_judge": self.ruled}
        return {**named, **line, **asdict(self.interval), **judged}


@dataclass(frozen=True, slots=True)
class BenchmarkReport:
    """A run on one benchmark; the fields are in the order of the JSON file."""

    title: str
    systems: tuple[str, ...]
    headline: str
    """Name of the first measure of the benchmark's protocol."""
    questions: int
    documents: int
    trajectories: int
    unscored: int
    """Questions whose right answer is unknown; they count only for navigation and use."""
    masked: dict[str, int]
    """Trajectories that were not played, by reason; they count as wrong."""
    answers: tuple[Number, ...]
    """The benchmark's numbers, starting with the headline, then those of the system's paper, then
    the general ones.
    """
    use: tuple[Number, ...]
    breakdowns: tuple[Number, ...]
    """The headline and the number of the system's paper, by line of the breakdowns."""
    pass_at: dict[int, Interval]
    verdicts: dict[str, dict[str, int]]
    """Counts of verdicts by judge; `none` if there was no answer or the judge failed, `not asked`
    for answers that by the rule of the system's paper count as wrong without asking the judge.
    """
    judge_failures: dict[str, int]

    def number(self, measure: str, row: Row = ALL) -> Number | None:
        """Return the number with this name and line, if there is one."""
        every = (*self.answers, *self.use, *self.breakdowns)
        return next(
            (each for each in every if each.measure.name == measure and each.row == row), None
        )


def benchmark(
    dataset: str, trajectories: Sequence[ScoredTrajectory], settings: ReportSettings
) -> BenchmarkReport:
    """Report on the trajectories of one benchmark."""
    protocol = protocol_of(dataset)
    answers = answer_measures(dataset, trajectories)
    use = [*NAVIGATION, *TOOLS, *USE, *_own_measures(trajectories)]
    numbers = _numbers(trajectories, answers, use, _broken_down(dataset, trajectories), settings)
    numbers += _statistics(protocol, trajectories)

    use_names = {measure.name for measure in use}
    over_all = [number for number in numbers if number.row == ALL]
    return BenchmarkReport(
        title=protocol.name,
        systems=tuple(sorted({each.system for each in trajectories})),
        headline=answers[0].name,
        questions=len({each.question_id for each in trajectories}),
        documents=len({each.document for each in trajectories}),
        trajectories=len(trajectories),
        unscored=len({each.question_id for each in trajectories if not each.scored}),
        masked=_counted(each.reason for each in trajectories if each.status == "masked"),
        answers=tuple(number for number in over_all if number.measure.name not in use_names),
        use=tuple(number for number in over_all if number.measure.name in use_names),
        breakdowns=tuple(number for number in numbers if number.row != ALL),
        pass_at={k: pass_at(trajectories, answers[0], k, settings) for k in settings.pass_at},
        verdicts=_verdicts(trajectories),
        judge_failures=_judge_failures(trajectories),
    )


def _numbers(
    trajectories: Sequence[ScoredTrajectory],
    answers: Sequence[Measure],
    use: Sequence[Measure],
    broken_down: Sequence[Measure],
    settings: ReportSettings,
) -> list[Number]:
    """Return every measure over all questions, then the broken-down ones by line."""
    lines: set[Row] = set()
    for trajectory in trajectories:
        if trajectory.scored:
            lines.update(rows_of(trajectory))
    cells = [Cell(measure) for measure in (*answers, *use)]
    for line in sorted(lines):
        cells += [Cell(measure, line) for measure in broken_down]

    # one set of resamples serves all cells, so that their intervals can be compared
    found = intervals(
        sums_of(trajectories, cells, rows_of), draws=settings.draws, seed=settings.seed
    )
    by = {measure.name: authors(measure, trajectories) for measure in answers}
    return [
        Number(cell.measure, cell.row, interval, by.get(cell.measure.name, ()))
        for cell, interval in zip(cells, found, strict=True)
        if interval.questions
    ]


def _statistics(protocol: Protocol, trajectories: Iterable[ScoredTrajectory]) -> list[Number]:
    """Return the protocol's statistics of the whole run, over trajectories whose right answer is
    known.
    """
    scored = [each for each in trajectories if each.scored]
    if not scored:
        return []
    questions = len({each.question_id for each in scored})
    documents = len({each.document for each in scored})
    numbers = []
    for statistic in protocol.statistics:
        efforts = []
        for trajectory in scored:
            score = trajectory.values.get(statistic.measure.value) or 0.0
            efforts.append((trajectory.values.get("turns") or 0.0, score >= RIGHT_FROM))
        value = statistic.of(efforts)
        numbers.append(
            Number(statistic.measure, ALL, Interval(value, None, None, questions, documents))
        )
    return numbers


def _own_measures(trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    """Return the environments' own numbers, under the names that the trainer logs.

    Those that would repeat one of ours are left out.
    """
    names = {name for each in trajectories for name in each.values if name.startswith(OWN)}
    for name, ours in _REPEATED.items():
        if _equal(trajectories, OWN + name, ours):
            names.discard(OWN + name)
    return [mean(name, name.removeprefix(OWN), unit=Unit.NUMBER) for name in sorted(names)]


def _equal(trajectories: Iterable[ScoredTrajectory], name: str, other: str) -> bool:
    """Return whether two values are equal in all trajectories that have the first."""
    found = [each.values for each in trajectories if each.values.get(name) is not None]
    return all(values[name] == values.get(other) for values in found)


def _broken_down(dataset: str, trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    """Return the headline, the numbers of the systems' papers, and those of judges that were asked
    in addition.
    """
    judged = []
    for measure in (JUDGED, CORRECT):
        if any(each.values.get(measure.value) is not None for each in trajectories):
            judged.append(measure)
    return _distinct(protocol_of(dataset).headline, *_papers(trajectories), *judged)


def _judge_failures(trajectories: Iterable[ScoredTrajectory]) -> dict[str, int]:
    """Count the questions about which a judge or extractor was asked without giving an answer."""
    return _counted(
        name
        for trajectory in trajectories
        for name, reply in trajectory.replies.items()
        if reply["failed"]
    )


def answer_measures(dataset: str, trajectories: Sequence[ScoredTrajectory]) -> list[Measure]:
    """Return the measures of the benchmark, the systems' papers and additional judges, then the
    general ones.
    """
    return _distinct(
        *protocol_of(dataset).measures, *_papers(trajectories), JUDGED, CORRECT, *GENERAL
    )


def rows_of(trajectory: ScoredTrajectory) -> list[Row]:
    """Return the lines of the breakdowns in which a trajectory counts.

    Lines of the benchmark's own table that repeat a label, such as `source/Table`, are left out.
    """
    own = [(BENCHMARK_ROWS, group) for group in trajectory.groups if "/" not in group]
    return [(kind, value) for kind, values in trajectory.labels.items() for value in values] + own


def pass_at(
    trajectories: Sequence[ScoredTrajectory], measure: Measure, k: int, settings: ReportSettings
) -> Interval:
    """Return the unbiased probability that one of `k` trajectories of a question is right.

    It is `1 - C(n - c, k) / C(n, k)` if `c` of `n` trajectories are right (arXiv 2107.03374, Eq.
    1). Questions with fewer than `k` trajectories are left out.
    """
    by_question: dict[str, list[ScoredTrajectory]] = {}
    for trajectory in trajectories:
        if trajectory.values.get(measure.value) is not None:
            by_question.setdefault(trajectory.question_id, []).append(trajectory)

    estimates = []
    for attempts in by_question.values():
        n = len(attempts)
        if n < k:
            continue
        c = sum((each.values.get(measure.value) or 0.0) >= RIGHT_FROM for each in attempts)
        value = 1.0 - math.comb(n - c, k) / math.comb(n, k)
        estimates.append(replace(attempts[0], values={"pass": value}))
    sums = sums_of(estimates, [Cell(mean("pass", f"pass@{k}"))])
    return intervals(sums, draws=settings.draws, seed=settings.seed)[0]


def authors(measure: Measure, trajectories: Iterable[ScoredTrajectory]) -> tuple[str, ...]:
    """Return the names of the judges or extractors on whose replies a number rests."""
    if measure.name == "rule":
        return (Author.RULE.value,)
    if measure.role is None:
        return ()
    replies = (each.replies.get(measure.role.value) for each in trajectories)
    names = {reply["by"] for reply in replies if reply}
    return tuple(sorted(names - {Author.NOBODY.value}))


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
        judged = [each for each in trajectories if judge in each.replies]
        if not judged:
            continue
        by_rule = any(each.replies[judge]["by"] == Author.RULE.value for each in judged)
        name = f"{judge.value} (by the {Author.RULE.value})" if by_rule else judge.value
        found[name] = _counted(_verdict(each, judge) for each in judged)
    return found


def _verdict(trajectory: ScoredTrajectory, judge: AnswerJudge) -> str:
    reply = trajectory.replies[judge]
    if reply["value"] is not None:
        return str(reply["value"])
    unasked = reply["by"] == Author.NOBODY.value and trajectory.answer is not None
    return "not asked" if unasked else "none"
