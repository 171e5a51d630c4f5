"""A collection: trajectories in the folder of a run, and what filters leave of them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.lab.agents.replay import trajectories_of
from docagent_rl.lab.agents.run_folder import RunFolder, key_of, service_failed
from docagent_rl.lab.agents.runner import Runner, RunSettings, tasks_of
from docagent_rl.lab.collect.case import Case, case_of
from docagent_rl.lab.collect.config import CollectConfig
from docagent_rl.lab.collect.curation import rates
from docagent_rl.lab.collect.filters import Failed, Filter
from docagent_rl.lab.collect.funnel import Funnel, run_funnel
from docagent_rl.lab.collect.judging import EvidenceJudge, judged
from docagent_rl.lab.eval.questions import digest_of
from docagent_rl.rewards.judge import Judge
from docagent_rl.rollout.recorder import Player
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample


def check_runs(filters: Sequence[Filter]) -> None:
    """See that the run of a `Failed` filter is there, before anything is paid for.

    Raises:
        UserError: it is not, or is empty.
    """
    for step in filters:
        if isinstance(step, Failed) and next(iter(trajectories_of(step.run)), None) is None:
            raise UserError(f"{step.run} holds no trajectory: which questions does the other model fail?")


def with_failures(cases: Sequence[Case], filters: Sequence[Filter]) -> list[Case]:
    """Cases that know whether the model of a `Failed` filter fails their question: in all of its
    trajectories.

    Args:
        cases: trajectories that were played.
        filters: in order.

    Raises:
        UserError: the model's run cannot be read, did not play a question that is asked for, or there are two
            such filters.
    """
    wanted = [step for step in filters if isinstance(step, Failed)]
    if not wanted:
        return list(cases)
    if len(wanted) > 1:
        raise UserError("a collection takes one filter `failed`: one model")
    (step,) = wanted
    played = (case_of(each) for each in trajectories_of(step.run) if not each.masked)
    right = {rate.question: rate.right for rate in rates(played, step.by, step.threshold)}
    lacking = {case.question for case in cases if case.dataset not in step.exempt} - right.keys()
    if lacking:
        raise UserError(
            f"{step.run} played no trajectory of {len(lacking)} questions of this collection, e.g. "
            f"{min(lacking)!r}: let the model that is to fail play all of them but those of "
            f"{', '.join(step.exempt) or 'no dataset'}"
        )
    return [replace(case, failed=right.get(case.question) == 0) for case in cases]


KIND = "collect"
KEPT, FUNNEL, VERDICTS = "kept.jsonl", "funnel.json", "verdicts.jsonl"


@dataclass(frozen=True, slots=True)
class Collection:
    """What is played.

    Args:
        recipe: whose system.
        system: its name.
        samples: the questions.
        settings: trajectories of each question, and how many at a time.
    """

    recipe: str
    system: str
    samples: Sequence[Sample]
    settings: RunSettings

    def manifest(self, player: Player) -> dict[str, Any]:
        """What the run is, for `RunFolder.begin`. Filters are no part of it: they may be changed later."""
        return {
            "kind": KIND,
            "recipe": self.recipe,
            "player": dict(player.identity),
            "questions": {"count": len(self.samples), "sha256": digest_of(self.samples)},
            "trajectories": self.settings.trajectories,
        }

    def is_whole(self, folder: RunFolder) -> bool:
        """Whether nothing is left to play, so that nobody has to be there who plays."""
        if not folder.trajectories_file.exists():
            return False
        played = {key_of(each) for each in folder.trajectories() if not service_failed(each)}
        return all(task.key in played for task in tasks_of(self.samples, self.settings.trajectories))

    async def play(self, player: Player, folder: RunFolder) -> None:
        """Play what has not been played, with a bar on standard error.

        Args:
            player: plays; it stays open.
            folder: of the run; made where it is missing.

        Raises:
            UserError: the folder holds another run, or the budget is spent; what was played is kept.
            InfrastructureError: a service is dead; what was played is kept.
        """
        folder.begin(self.manifest(player))
        console = Console(stderr=True)
        columns = (TextColumn("collecting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
            task = bar.add_task("", total=len(self.samples) * self.settings.trajectories)

            def advance(_: Trajectory) -> None:
                bar.advance(task)

            await Runner(player, self.system, folder, self.settings, advance).run(self.samples)


def sift(
    folder: RunFolder,
    config: CollectConfig,
    judge: Judge | None = None,
    evidence: EvidenceJudge | None = None,
) -> Funnel:
    """Filter the trajectories of a run; writes what is left, the funnel, and every trajectory's verdict.

    The lines of `kept.jsonl` are those of `trajectories.jsonl`.

    Args:
        folder: of a run that is whole.
        config: with the filters.
        judge: asked about answers where a filter wants it; `None`: nobody is.
        evidence: asked about pages where a filter wants it; `None`: nobody is.

    Raises:
        UserError: a trajectory cannot be read, a file cannot be written, or the budget is spent.
        InfrastructureError: a judge failed.
    """
    cases, trajectories = [], 0
    for trajectory in folder.trajectories():
        trajectories += 1
        if not trajectory.masked:
            cases.append(case_of(trajectory))
    cases = with_failures(cases, config.filters)
    if judge is not None or evidence is not None:
        cases = asyncio.run(judged(cases, config.filters, judge, evidence))
    funnel = run_funnel(cases, config.filters, trajectories=trajectories)
    funnel.unjudged = Counter(case.unjudged for case in cases if case.unjudged)
    kept = {case.key for case in funnel.kept}
    atomic_write(folder.path / KEPT, _lines(folder.trajectories_file, kept))
    told = {**funnel.to_dict(), "filters": [each.model_dump(mode="json") for each in config.filters]}
    told |= {"source": config.source, "departures": list(config.departures)}
    atomic_write(folder.path / FUNNEL, json.dumps(told, indent=2, ensure_ascii=False) + "\n")
    verdicts = (_verdict(case, funnel) for case in cases)
    text = "".join(json.dumps(verdict, ensure_ascii=False) + "\n" for verdict in verdicts)
    atomic_write(folder.path / VERDICTS, text)
    return funnel


def _verdict(case: Case, funnel: Funnel) -> Mapping[str, Any]:
    return {
        "question_id": case.question,
        "number": case.number,
        "dropped_by": funnel.dropped.get(case.key),
        "reward": case.reward,
        "answer": case.prediction,
        "verdict": case.verdict,
        "supported": case.supported,
        "unjudged": case.unjudged or None,
        "actions": list(case.actions),
    }


def _lines(trajectories: Path, kept: set[tuple[str, int]]) -> Iterator[bytes]:
    with trajectories.open("rb") as file:
        for line in file:
            data = json.loads(line)
            question = data["sample"].get("question_id") or data["uid"]
            if (str(question), int(data["number"])) in kept:
                yield line
