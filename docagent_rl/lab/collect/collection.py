"""A collection: trajectories in the folder of a run, and those that remain after each filter."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.checkpoints.file_status import VERDICTS, require_whole
from docagent_rl.endpoints.chat_reply import TransientError, Unanswered
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.lab.agents.run_folder import (
    Key,
    RunFolder,
    key_of,
    service_failed,
    trajectories_of,
)
from docagent_rl.lab.agents.runner import tasks_of
from docagent_rl.lab.collect.case import Case, case_of
from docagent_rl.lab.collect.config import CollectConfig
from docagent_rl.lab.collect.curation import rates
from docagent_rl.lab.collect.filters import AnswerFilter, Failed, Filter, answer_score, is_unknown
from docagent_rl.lab.eval.evaluation import questions_digest
from docagent_rl.rewards.answer_kinds import AnswerKind, kind_of
from docagent_rl.rewards.judge import Judge
from docagent_rl.rollout.recorder import Player
from docagent_rl.rollout.trajectory import Trajectory, read_trajectories
from docagent_rl.samples.sample import Sample

KIND = "collect"
KEPT = "kept.jsonl"
FUNNEL = "funnel.json"
PLAYED = "played"
_JUDGED_AT_A_TIME = 16
_VALIDATION = "val-"
"""Prefix of the files with a training run's validation trajectories."""


def check_runs(filters: Sequence[Filter]) -> None:
    """Raise `UserError` if the run of a `Failed` filter is missing or empty, before anything is
    spent.
    """
    for step in filters:
        if isinstance(step, Failed) and next(iter(trajectories_of(step.run)), None) is None:
            raise UserError(
                f"{step.run} contains no trajectories, so it is unknown which questions the other "
                "model fails: name the folder of its evaluation"
            )


def with_failures(cases: Sequence[Case], filters: Sequence[Filter]) -> list[Case]:
    """Return the cases with `failed`: whether a `Failed` filter's model always answered wrongly.

    If none of its answers is right and some are unjudged, whether it fails the question is unknown.

    Raises:
        UserError: the model's run cannot be read or lacks a question of the collection, or there
            are two such filters.
    """
    steps = [step for step in filters if isinstance(step, Failed)]
    if not steps:
        return list(cases)
    if len(steps) > 1:
        raise UserError("a collection takes only one filter `failed`: remove the others")
    (step,) = steps
    played = [case_of(each) for each in trajectories_of(step.run) if not each.masked]
    unknown = {case.question for case in played if is_unknown(case, step.by)}
    right = {rate.question: rate.right for rate in rates(played, step.by, step.threshold)}
    lacking = {case.question for case in cases if case.dataset not in step.exempt} - right.keys()
    if lacking:
        raise UserError(
            f"{step.run} has no trajectories for {len(lacking)} questions of this collection, "
            f"e.g. {min(lacking)!r}: have the other model play all questions except those of "
            f"{', '.join(step.exempt) or 'no dataset'}"
        )
    failed = {
        question: None if question in unknown and not n else n == 0 for question, n in right.items()
    }
    return [replace(case, failed=failed.get(case.question, False)) for case in cases]


def is_played(folder: RunFolder, samples: Sequence[Sample], trajectories: int) -> bool:
    """Return whether nothing is left to play, and thus no player is needed."""
    if not folder.trajectories_file.exists():
        return False
    played = {key_of(each) for each in folder.trajectories() if not service_failed(each)}
    return tasks_of(samples, trajectories).keys() <= played


def manifest_of(
    recipe: str, player: Player, samples: Sequence[Sample], trajectories: int
) -> dict[str, Any]:
    """Return the manifest for `RunFolder.begin`, without the filters, which may be changed
    later.
    """
    return {
        "kind": KIND,
        "recipe": recipe,
        "player": dict(player.identity),
        "questions": {"count": len(samples), "sha256": questions_digest(samples)},
        "trajectories": trajectories,
    }


@dataclass(frozen=True, slots=True)
class FilterStage:
    """The numbers of trajectories and questions that are left after a filter, and of trajectories
    by dataset.
    """

    step: str
    trajectories: int
    questions: int
    datasets: dict[str, int]

    @classmethod
    def of(cls, step: str, cases: Sequence[Case]) -> FilterStage:
        """Count the cases that are left."""
        datasets = Counter(case.dataset for case in cases)
        return cls(
            step, len(cases), len({case.question for case in cases}), dict(sorted(datasets.items()))
        )


@dataclass(slots=True)
class FilterFunnel:
    """The trajectories that pass a sequence of filters."""

    trajectories: int
    """All trajectories of the run, including those that could not be played."""
    stages: list[FilterStage] = field(default_factory=list)
    """Counts of the trajectories that were played, then of those left after each filter."""
    dropped: dict[Key, str] = field(default_factory=dict)
    """The filter that dropped each trajectory."""
    kept: list[Case] = field(default_factory=list)
    """Trajectories that passed all filters."""
    unjudged: Counter[str] = field(default_factory=Counter)
    """Number of trajectories for which a judge gave no verdict, by reason."""
    unknown_answers: int = 0
    """Answers that a filter dropped because their environment had not judged them."""

    def warnings(self) -> list[str]:
        """Return warnings about trajectories that were dropped for lack of a verdict."""
        found = [
            f"{count} trajectories got no verdict from the judge ({why}), which therefore cannot "
            "save them: run the same command to ask again"
            for why, count in sorted(self.unjudged.items())
        ]
        if self.unknown_answers:
            found.append(
                f"{self.unknown_answers} answers were dropped because their environment did not "
                "judge them (the gate of its reward was closed): set `by: likeness` in the filter "
                "`answer`, or have the judge asked with `judged: true`"
            )
        return found

    def table(self) -> Table:
        """Return a table for the terminal."""
        table = Table("step", title=f"{self.trajectories} trajectories recorded")
        for heading in ("trajectories", "left", "questions"):
            table.add_column(heading, justify="right")
        before = self.trajectories
        for stage in self.stages:
            left = f"{stage.trajectories / before:.1%}" if before else "-"
            table.add_row(stage.step, str(stage.trajectories), left, str(stage.questions))
            before = stage.trajectories
        return table


def run_funnel(
    played: Iterable[Case], filters: Sequence[Filter], *, trajectories: int
) -> FilterFunnel:
    """Pass the cases that were played, in the order of the run, through the filters."""
    cases = list(played)
    funnel = FilterFunnel(trajectories, [FilterStage.of(PLAYED, cases)])
    for number, step in enumerate(filters, start=1):
        keeps = step.keep(cases)
        name = f"{number} {step.kind}"
        if isinstance(step, AnswerFilter):
            dropped = [case for case, keep in zip(cases, keeps, strict=True) if not keep]
            funnel.unknown_answers += sum(is_unknown(case, step.by) for case in dropped)
        funnel.dropped |= {
            case.key: name for case, keep in zip(cases, keeps, strict=True) if not keep
        }
        cases = [case for case, keep in zip(cases, keeps, strict=True) if keep]
        funnel.stages.append(FilterStage.of(name, cases))
    funnel.kept = cases
    return funnel


def filter_run(
    folder: RunFolder, config: CollectConfig, judge: Judge | None = None
) -> FilterFunnel:
    """Filter the trajectories of a complete run; write those left, the counts, and each verdict.

    The lines of `kept.jsonl` are copied from `trajectories.jsonl`. Without a `judge` no model is
    asked.

    Raises:
        UserError: a trajectory cannot be read, a file cannot be written, or the budget is spent.
        InfrastructureError: the judge failed.
    """
    cases = []
    trajectories = 0
    for trajectory in folder.trajectories():
        trajectories += 1
        if not trajectory.masked:
            cases.append(case_of(trajectory))
    cases = with_failures(cases, config.filters)
    if judge is not None:
        cases = asyncio.run(with_verdicts(cases, config.filters, judge))
    funnel = run_funnel(cases, config.filters, trajectories=trajectories)
    funnel.unjudged = Counter(case.unjudged for case in cases if case.unjudged)
    kept = {case.key for case in funnel.kept}
    folder.seal.write(folder.path / KEPT, _lines(folder.trajectories_file, kept))
    account = {
        "trajectories": trajectories,
        "stages": [asdict(stage) for stage in funnel.stages],
        "filters": [each.model_dump(mode="json") for each in config.filters],
        "source": config.source,
        "departures": list(config.departures),
    }
    folder.seal.write(
        folder.path / FUNNEL, json.dumps(account, indent=2, ensure_ascii=False) + "\n"
    )
    verdicts = (
        {
            "question_id": case.question,
            "number": case.number,
            "dropped_by": funnel.dropped.get(case.key),
            "reward": case.reward,
            "answer": case.prediction,
            "outcome": case.outcome.state.value if case.outcome else None,
            "verdict": case.verdict,
            "unjudged": case.unjudged or None,
            "actions": list(case.actions),
        }
        for case in cases
    )
    text = "".join(json.dumps(verdict, ensure_ascii=False) + "\n" for verdict in verdicts)
    folder.seal.write(folder.path / VERDICTS, text)
    folder.seal.compact()
    return funnel


def _lines(trajectories: Path, kept: set[Key]) -> Iterator[bytes]:
    with trajectories.open("rb") as file:
        for line in file:
            data = json.loads(line)
            question = data["sample"].get("question_id") or data["uid"]
            if (str(question), int(data["number"])) in kept:
                yield line


def read_all(files: Sequence[Path]) -> Iterator[Trajectory]:
    """Read the trajectories of files, or of folders (`trajectory_files`)."""
    for file in trajectory_files(files):
        yield from read_trajectories(file)


def trajectory_files(paths: Sequence[Path]) -> list[Path]:
    """Return the trajectory files that a command's paths stand for.

    For a collection's folder that is the trajectories its filters kept, for another run's folder
    all its trajectories, and for any other folder all files except those of a run's validation,
    which must be named explicitly.

    Raises:
        UserError: a file is missing or damaged, a folder contains none, or its collection is not
            complete.
    """
    found: list[Path] = []
    for path in paths:
        run = RunFolder(path)
        if not path.exists():
            raise UserError(f"{path}: no such trajectory file or folder")
        if not path.is_dir():
            found.append(path)
        elif not run.manifest_file.exists():
            inside = sorted(
                each for each in path.glob("*.jsonl") if not each.name.startswith(_VALIDATION)
            )
            if not inside:
                raise UserError(f"{path}: this folder contains no .jsonl file of trajectories")
            found += inside
        elif run.manifest().get("kind") != KIND:
            found.append(run.trajectories_file)
        elif (path / KEPT).exists():
            found.append(path / KEPT)
        else:
            raise UserError(
                f"{path} contains an unfinished collection: run the same command again to finish "
                f"it, or name its {run.trajectories_file.name} to use everything played so far, "
                "unfiltered"
            )
    require_whole(found)
    return found


async def with_verdicts(
    cases: Sequence[Case], filters: Sequence[Filter], judge: Judge
) -> list[Case]:
    """Return the cases with the verdicts that filters need, asking only about those still left.

    The judge is asked about free-text answers that are too dissimilar to the references: do they
    mean the same? Answers that name something (a date, a number) are right or wrong without it. A
    trajectory has no verdict (`Case.unjudged`) if the judge's reply cannot be parsed, or it refuses
    the request.

    Raises:
        BudgetError: the budget is spent.
        InfrastructureError: the judge failed.
    """
    left = list(cases)
    seen = {case.key: case for case in cases}
    for step in filters:
        if isinstance(step, AnswerFilter) and step.judged:
            await _ask([case for case in left if _may_be_same(case, step)], judge, seen)
        left = [seen[case.key] for case in left]
        left = [case for case, keep in zip(left, step.keep(left), strict=True) if keep]
    return [seen[case.key] for case in cases]


async def _ask(cases: Sequence[Case], judge: Judge, seen: dict[Key, Case]) -> None:
    """Ask about each case, several at a time, and store it in `seen`. If one fails, the requests in
    flight still finish.
    """
    unanswered = Unanswered()

    async def one(case: Case) -> None:
        try:
            # the items of a list are one reference
            references = ("; ".join(case.references),) if case.listing else case.references
            verdict = await judge.judge(case.text, references, case.prediction or "")
            seen[case.key] = replace(case, verdict=verdict)
            unanswered.answered()
        except InfrastructureError as error:
            why = unanswered.reason(error)
            if why is None or isinstance(error.__cause__, TransientError | TimeoutError):
                raise
            seen[case.key] = replace(case, unjudged=why)

    await run_jobs(cases, one, at_once=_JUDGED_AT_A_TIME)


def _may_be_same(case: Case, step: AnswerFilter) -> bool:
    asked = case.verdict is not None or case.unjudged
    if asked or not case.references or not (case.prediction or "").strip():
        return False
    free = any(kind_of(reference) is AnswerKind.TEXT for reference in case.references)
    return free and answer_score(case, step.by, step.threshold) < step.threshold
