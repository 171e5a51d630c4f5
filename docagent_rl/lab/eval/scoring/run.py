"""Scoring the folder of a run: `scores.jsonl`, and beside it what it was made from."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.endpoints.endpoint import Price
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.eval.run_facts import agent_of, extractor_of
from docagent_rl.lab.eval.scoring.experts import EXPERTS, Author, Expert, expert_prompt
from docagent_rl.lab.eval.scoring.protocols import paper_measures
from docagent_rl.lab.eval.scoring.scored import VERSION, ScoredTrajectory, read_scores
from docagent_rl.lab.eval.scoring.trajectory import ScoringSettings, score_trajectory
from docagent_rl.lab.eval.scoring.use import use_values

SCORES, ABOUT = "scores.jsonl", "scores.json"
_RULES = 4
"""Edition of the scoring rules: scores by other ones are made again."""
T = TypeVar("T")
R = TypeVar("R")

Listener = Callable[[ScoredTrajectory], None]
"""Called with every trajectory that is scored, in order."""


def paper_experts(folders: Iterable[RunFolder]) -> set[Expert]:
    """Return the judges of the papers of several systems, so that all runs have the numbers of each.

    Raises:
        UserError: a trajectory cannot be read.
    """
    systems = {trajectory.system for folder in folders for trajectory in islice(folder.trajectories(), 1)}
    if len(systems) < 2:
        return set()
    experts = (measure.expert for system in systems for measure in paper_measures(system))
    return {expert for expert in experts if expert is not None}


async def score_run(
    folder: RunFolder, settings: ScoringSettings, heard: Listener = lambda _: None
) -> list[ScoredTrajectory]:
    """Score a run, or read its scores where they are those of its trajectories and of these settings.

    What a model was paid for is in its cache: a run that was stopped goes on, and gives the same file.

    Raises:
        UserError: there is no run, a trajectory cannot be read, or the budget is spent (`BudgetError`).
        InfrastructureError: the judge's service is dead.
    """
    about, manifest = _about(folder, settings), folder.manifest()
    agent, settings = agent_of(manifest), replace(settings, extractor=extractor_of(manifest))
    scores, described = folder.path / SCORES, folder.path / ABOUT
    if _read_json(described) == about and scores.is_file():
        return list(read_scores(scores))
    found: dict[tuple[str, int], ScoredTrajectory] = {}
    scoring = ordered(
        folder.trajectories(), lambda each: score_trajectory(each, agent, settings), settings.concurrency
    )
    async for trajectory in scoring:
        # a run that goes on plays again what a service failed; the last one counts
        found[trajectory.question_id, trajectory.number] = trajectory
        heard(trajectory)
    described.unlink(missing_ok=True)  # says nothing while the scores are written
    atomic_write(scores, (f"{each.to_json()}\n".encode() for each in found.values()))
    atomic_write(described, json.dumps(about, indent=2) + "\n")
    return list(read_scores(scores))


def model_scores(folder: RunFolder) -> tuple[str, list[ScoredTrajectory]] | None:
    """Return the judge's name and the scores, where a model has judged the run as it is; `None` else.

    Raises:
        UserError: there is no run.
    """
    about, scores = _read_json(folder.path / ABOUT), folder.path / SCORES
    if not isinstance(about, dict) or about.get("judge") == Author.RULE.value or not scores.is_file():
        return None
    # whoever judged, and whatever was asked beside: trajectories, prompts and rules are those of now
    now = _about(folder, ScoringSettings())
    same = all(about.get(key) == now[key] for key in ("version", "rules", "prompts", "trajectories"))
    return (str(about.get("judge")), list(read_scores(scores))) if same else None


def with_costs(
    folder: RunFolder, trajectories: Iterable[ScoredTrajectory], price: Price | None
) -> list[ScoredTrajectory]:
    """Return scored trajectories with the cost of each; without a price as they are."""
    if price is None:
        return list(trajectories)
    used = {(each.uid, each.number): use_values(each, price) for each in folder.trajectories()}
    return [
        replace(each, values=each.values | used.get((each.question_id, each.number), {}))
        for each in trajectories
    ]


async def ordered(
    items: Iterable[T], work: Callable[[T], Coroutine[Any, Any, R]], most: int
) -> AsyncIterator[R]:
    """Yield results in the order of the items, at most so many at work; the first failure ends all."""
    waiting: deque[asyncio.Task[R]] = deque()
    source = iter(items)
    try:
        while True:
            for item in islice(source, most - len(waiting)):
                waiting.append(asyncio.create_task(work(item)))
            if not waiting:
                return
            yield await waiting[0]
            waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


def _about(folder: RunFolder, settings: ScoringSettings) -> dict[str, Any]:
    """Return what scores are made from."""
    judge, second = (
        Author.RULE.value if model is None else model.endpoint.model
        for model in (settings.judge, settings.second)
    )
    return {
        "version": VERSION,
        "rules": _RULES,
        "judge": judge,
        "second_judge": None if settings.judge is None else second,
        "experts": sorted(expert.value for expert in settings.experts),
        "price": None if settings.price is None else asdict(settings.price),
        "prompts": {expert.value: expert_prompt(expert).digest for expert in EXPERTS},
        "trajectories": _digest(folder.trajectories_file),
    }


def _digest(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path}: no trajectories there; play the run first")
    with path.open("rb") as file:
        if path.stat().st_size and file.seek(-1, os.SEEK_END) and file.read(1) != b"\n":
            raise UserError(
                f"{path} ends within a trajectory: the run was stopped, start it again and it goes on"
            )
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
