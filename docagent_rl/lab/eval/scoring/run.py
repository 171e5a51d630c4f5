"""Scoring the folder of a run: `scores.jsonl`, and beside it what it was made from."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.endpoints.endpoint import Price
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.eval.metrics.prompt_files import Extractor
from docagent_rl.lab.eval.scoring.agent import agent_of, extractor_of
from docagent_rl.lab.eval.scoring.asking import Panel, RulePanel, opinions
from docagent_rl.lab.eval.scoring.experts import EXPERTS, UNASKED, Expert, Opinion, expert_prompt
from docagent_rl.lab.eval.scoring.numbers import use_values
from docagent_rl.lab.eval.scoring.played import read_session
from docagent_rl.lab.eval.scoring.protocols import paper_measures, protocol_of
from docagent_rl.lab.eval.scoring.scored import VERSION, ScoredSession, lines, read_scores
from docagent_rl.lab.eval.scoring.session import case_of, goes_to, known, record_of, scored
from docagent_rl.rollout.trajectory import Trajectory

SCORES, ABOUT = "scores.jsonl", "scores.json"
_RULES = 4
"""Of scoring itself: scores by other ones are made again."""
T = TypeVar("T")
R = TypeVar("R")

Listener = Callable[[ScoredSession], None]
"""Told of every session that is scored, in order."""


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """How a run is scored.

    Args:
        panel: gives opinions; the embedded rule judge where no model is named.
        second: gives them again, so that their agreement can be told; `None` is the rule judge where the
            first is a model, and nobody where it is not.
        experts: asked of every session beyond those that its benchmark and its system need.
        price: of the model that played.
        concurrency: sessions at a time.
    """

    panel: Panel = field(default_factory=RulePanel)
    second: Panel | None = None
    experts: frozenset[Expert] = frozenset()
    price: Price | None = None
    concurrency: int = 64

    @property
    def other(self) -> Panel | None:
        """The second judge."""
        rule = RulePanel()
        return self.second or (None if self.panel.name == rule.name else rule)

    def to_dict(self) -> dict[str, Any]:
        """What scores depend on, ready for JSON."""
        return {
            "judge": self.panel.name,
            "second_judge": None if self.other is None else self.other.name,
            "experts": sorted(expert.value for expert in self.experts),
            "price": None if self.price is None else asdict(self.price),
            "prompts": {expert.value: expert_prompt(expert).digest for expert in EXPERTS},
        }


def experts_for(dataset: str, system: str, more: Iterable[Expert] = ()) -> list[Expert]:
    """Whose opinion a session needs, in a fixed order."""
    wanted = {*protocol_of(dataset).experts, *more}
    wanted |= {measure.expert for measure in paper_measures(system) if measure.expert is not None}
    return [expert for expert in EXPERTS if expert in wanted]


def paper_experts(folders: Iterable[RunFolder]) -> set[Expert]:
    """Judges of the papers of several systems, so that all runs have the numbers of each; one needs no more.

    Raises:
        UserError: a session cannot be read.
    """
    systems = {session.system for folder in folders for session in islice(folder.sessions(), 1)}
    measures = (measure for system in systems if len(systems) > 1 for measure in paper_measures(system))
    return {measure.expert for measure in measures if measure.expert is not None}


async def score_session(trajectory: Trajectory, agent: str, settings: ScoringSettings) -> ScoredSession:
    """Score a session, asking whoever has to be asked.

    Raises:
        UserError: its record is none, or the budget is spent (`BudgetError`).
        InfrastructureError: the judge's service is dead.
    """
    record = record_of(trajectory)
    told: dict[Expert, Opinion] = {}
    again: dict[Expert, Opinion] = {}
    rule = 0.0
    if known(record):
        played = read_session(trajectory)
        case = case_of(record, played, trajectory.system)
        wanted = experts_for(record.dataset, trajectory.system, settings.experts)
        asked = [expert for expert in wanted if goes_to(expert, trajectory, played)]
        unasked = dict.fromkeys((expert for expert in wanted if expert not in asked), UNASKED)
        told = unasked | await opinions(settings.panel, asked, case)
        if settings.other is not None:
            judges = [expert for expert in asked if not isinstance(expert, Extractor)]
            again = await opinions(settings.other, judges, case)
        if played.answer is not None:
            rule = await RulePanel().judge.judge(case.question, case.references, played.answer)
    return await asyncio.to_thread(
        scored, trajectory, agent, told, again, rule=rule >= 1.0, price=settings.price
    )


async def score_run(
    folder: RunFolder, settings: ScoringSettings, heard: Listener = lambda _: None
) -> list[ScoredSession]:
    """Score a run, or read its scores where they are those of its sessions and of these settings.

    What a model was paid for is in its cache: a run that was stopped goes on, and gives the same file.

    Raises:
        UserError: there is no run, a session cannot be read, or the budget is spent (`BudgetError`).
        InfrastructureError: the judge's service is dead.
    """
    about = _about(folder, settings)
    manifest = folder.manifest()
    agent = agent_of(manifest)
    if isinstance(settings.panel, RulePanel):
        settings = replace(settings, panel=replace(settings.panel, extractor=extractor_of(manifest)))
    there = folder.path / SCORES
    if _told(folder.path / ABOUT) == about and there.is_file():
        return list(read_scores(there))
    found: dict[tuple[str, int], ScoredSession] = {}
    scoring = ordered(
        folder.sessions(), lambda each: score_session(each, agent, settings), settings.concurrency
    )
    async for session in scoring:
        # a run that goes on plays again what a service failed; the last one counts
        found[session.question_id, session.session] = session
        heard(session)
    (folder.path / ABOUT).unlink(missing_ok=True)  # says nothing while the scores are written
    atomic_write(there, lines(found.values()))
    atomic_write(folder.path / ABOUT, json.dumps(about, indent=2) + "\n")
    return list(read_scores(there))


def model_scores(folder: RunFolder) -> tuple[str, list[ScoredSession]] | None:
    """The judge's name and the scores, where a model has judged the run as it is; `None` else.

    Raises:
        UserError: there is no run.
    """
    told, there = _told(folder.path / ABOUT), folder.path / SCORES
    if not isinstance(told, dict) or told.get("judge") == RulePanel().name or not there.is_file():
        return None
    # whoever judged, and whatever was asked beside: sessions, prompts and rules are those of now
    now = _about(folder, ScoringSettings())
    same = all(told.get(key) == now[key] for key in ("version", "rules", "prompts", "sessions"))
    return (str(told.get("judge")), list(read_scores(there))) if same else None


def with_costs(
    folder: RunFolder, sessions: Iterable[ScoredSession], price: Price | None
) -> list[ScoredSession]:
    """Scored sessions with what each of them cost; without a price as they are."""
    if price is None:
        return list(sessions)
    used = {(each.uid, each.session): use_values(each, price) for each in folder.sessions()}
    return [
        replace(each, values=each.values | used.get((each.question_id, each.session), {}))
        for each in sessions
    ]


def _about(folder: RunFolder, settings: ScoringSettings) -> dict[str, Any]:
    """What scores are made from."""
    sessions = _digest(folder.sessions_file)
    return {"version": VERSION, "rules": _RULES, **settings.to_dict(), "sessions": sessions}


async def ordered(items: Iterable[T], work: Callable[[T], Awaitable[R]], most: int) -> AsyncIterator[R]:
    """Results in the order of the items, at most so many at work; the first failure ends all."""
    waiting: deque[asyncio.Task[R]] = deque()
    source: Iterator[T] = iter(items)
    try:
        while True:
            while len(waiting) < most and (batch := _next(source)):
                waiting.append(asyncio.ensure_future(_awaited(work, batch[0])))
            if not waiting:
                return
            yield await waiting[0]
            waiting.popleft()
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def _awaited(work: Callable[[T], Awaitable[R]], item: T) -> R:
    return await work(item)


def _next(source: Iterator[T]) -> Sequence[T]:
    for item in source:
        return (item,)
    return ()


def _digest(path: Path) -> str:
    if not path.is_file():
        raise UserError(f"{path}: no sessions there; play the run first")
    with path.open("rb") as file:
        if path.stat().st_size and file.seek(-1, os.SEEK_END) and file.read(1) != b"\n":
            raise UserError(
                f"{path} ends within a session: the run was stopped, start it again and it goes on"
            )
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


def _told(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
