"""Scoring of recorded trajectories, and the file with a run's scores."""

import asyncio
import os
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from operator import itemgetter
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.checkpoints.file_status import SCORES
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.envs.checks import references
from docagent_rl.envs.system import PaperJudge
from docagent_rl.lab.agents.run_folder import RunFolder
from docagent_rl.lab.eval.metrics.answers import squad_f1
from docagent_rl.lab.eval.metrics.judges import AnswerJudge, is_judged
from docagent_rl.lab.eval.run_facts import agent_of
from docagent_rl.lab.eval.scoring.official import Official, refuses
from docagent_rl.lab.eval.scoring.played import labels_of, read_trajectory
from docagent_rl.lab.eval.scoring.protocols import (
    judged_values,
    navigation_values,
    paper_judge,
    paper_measures,
    protocol_of,
    use_values,
)
from docagent_rl.lab.eval.scoring.roles import (
    SCORING_ROLES,
    UNASKED,
    Author,
    JudgedAnswer,
    JudgeReply,
    ScoringRole,
    parsed_reply,
    reply_of,
)
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rewards.text import anls, squad_normalise
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """Settings for scoring a run."""

    judge: RemoteModel | None = None
    """The model that replies as judges and extractors; `None`: the embedded rule judge."""
    roles: frozenset[ScoringRole] = frozenset()
    """Judges and extractors asked about every trajectory, in addition to those that its benchmark
    and its system need.
    """
    concurrency: int = 64


async def score_trajectory(
    trajectory: Trajectory, agent: str, settings: ScoringSettings
) -> ScoredTrajectory:
    """Score a trajectory. One that was not played, or gave no answer, is wrong.

    Raises:
        UserError: its sample is invalid, or the budget is spent (`BudgetError`).
        InfrastructureError: the judge's service is down.
    """
    try:
        sample = Sample.from_dict(trajectory.sample)
    except UserError as error:
        name = f"trajectory {trajectory.number} of {trajectory.uid!r}"
        raise UserError(f"{name} has an invalid sample: {error}") from error
    played = read_trajectory(trajectory)
    judge = paper_judge(trajectory.system)
    # some benchmarks withhold the right answers of their test questions
    withheld = sample.extra.get("hidden") is True
    known = not withheld and (sample.answerable is False or bool(sample.answers))
    replies: dict[ScoringRole, JudgeReply] = {}
    judged_answer = JudgedAnswer(sample, played, replies, judge)
    rule = 0.0
    if known:
        for role in _wanted(sample, trajectory.system, settings):
            unasked = (
                role is AnswerJudge.TRUE_FALSE
                and judge is PaperJudge.TRUE_FALSE_AFTER_SEARCH
                and not is_judged(played.response)
            )
            replies[role] = (
                UNASKED if unasked else await reply_of(settings.judge, role, judged_answer)
            )
        if played.answer is not None:
            rule = await RuleJudge().judge(sample.question, references(sample), played.answer)
    # in a thread: scoring a long answer takes a while, and others should not wait for it
    return await asyncio.to_thread(_scored, trajectory, agent, judged_answer, known, rule >= 1.0)


def _wanted(sample: Sample, system: str, settings: ScoringSettings) -> list[ScoringRole]:
    """Return the judges and extractors that benchmark, paper and settings ask, in fixed order."""
    of_paper = {measure.role for measure in paper_measures(system)}
    wanted = {*protocol_of(sample.dataset).roles, *settings.roles, *of_paper}
    return [role for role in SCORING_ROLES if role in wanted]


def _scored(
    trajectory: Trajectory, agent: str, judged_answer: JudgedAnswer, known: bool, rule: bool
) -> ScoredTrajectory:
    """Return the scores of a trajectory about which all judges and extractors have replied."""
    sample = judged_answer.sample
    played = judged_answer.played
    replies = judged_answer.replies
    verdicts = {
        role: parsed_reply(role, given.reply, judged_answer.judge)
        for role, given in replies.items()
    }
    official = Official({})
    values: dict[str, float | None] = {}
    if known:
        official = protocol_of(sample.dataset).score(judged_answer)
        values.update(_general(sample, played.answer, rule))
        values.update(official.values)
        values.update(judged_values(verdicts))
    # if an environment showed pages without recording which, navigation is unknown
    if not trajectory.masked and (played.collected or not trajectory.metrics.get("pages_seen")):
        values.update(navigation_values(sample, played))
    values.update(use_values(trajectory))
    return ScoredTrajectory(
        question_id=sample.question_id,
        number=trajectory.number,
        document=sample.doc_id,
        dataset=sample.dataset,
        system=trajectory.system,
        agent=agent,
        status=trajectory.status,
        reason=trajectory.end,
        scored=known,
        answer=played.answer,
        labels=labels_of(sample),
        groups=list(official.groups),
        values=values,
        replies={
            role.value: {
                "value": _plain(verdicts[role]),
                "by": given.by,
                "failed": given.failed,
            }
            for role, given in replies.items()
        },
    )


def _plain(verdict: Any) -> bool | int | str | None:
    """Return a verdict in a form that JSON can represent; an extractor's lists and fractions as
    text.
    """
    return verdict if verdict is None or isinstance(verdict, int) else str(verdict)


def _general(sample: Sample, answer: str | None, rule: bool) -> dict[str, float | None]:
    """Return the values that every benchmark gets, the best over the right answers."""
    if sample.answerable is False:
        right = float(refuses(sample.question, answer))
        return {"rule": float(rule), "exact": right, "word_f1": right, "similarity": right}
    golds = references(sample)
    given = answer or ""
    words = squad_normalise(given)
    return {
        "rule": float(rule),
        "exact": float(bool(words) and any(words == squad_normalise(gold) for gold in golds)),
        "word_f1": max(squad_f1(gold, given) for gold in golds),
        "similarity": max(anls(gold, given) for gold in golds),
    }


def paper_roles(folders: Iterable[RunFolder]) -> set[ScoringRole]:
    """Return the judges of the papers of several systems, so that all runs get the numbers of each.

    Raises:
        UserError: a trajectory cannot be read.
    """
    systems = {
        trajectory.system for folder in folders for trajectory in islice(folder.trajectories(), 1)
    }
    if len(systems) < 2:
        return set()
    roles = (measure.role for system in systems for measure in paper_measures(system))
    return {role for role in roles if role is not None}


async def score_run(
    folder: RunFolder,
    settings: ScoringSettings,
    listener: Callable[[ScoredTrajectory], None] = lambda _: None,
) -> list[ScoredTrajectory]:
    """Score a run.

    The listener is called with every trajectory as soon as it is scored. A model's replies are
    cached, so that a run that was stopped continues and gives the same file.

    Raises:
        UserError: there is no run, a trajectory cannot be read, or the budget is spent
            (`BudgetError`).
        InfrastructureError: the judge's service is down, or none of its replies can be parsed.
    """
    _check_whole(folder)
    agent = agent_of(folder.manifest())
    by_place: dict[int, ScoredTrajectory] = {}

    async def score(job: tuple[int, Trajectory]) -> None:
        by_place[job[0]] = await score_trajectory(job[1], agent, settings)
        listener(by_place[job[0]])

    await run_jobs(enumerate(folder.trajectories()), score, at_once=settings.concurrency)
    # a resumed run repeats trajectories whose service failed, so a key may occur twice
    found = {
        (each.question_id, each.number): each
        for _, each in sorted(by_place.items(), key=itemgetter(0))
    }
    _check_read(found.values())
    folder.seal.write(
        folder.path / SCORES, (f"{each.to_json()}\n".encode() for each in found.values())
    )
    return list(found.values())


def _check_read(scored: Iterable[ScoredTrajectory]) -> None:
    """Raise `InfrastructureError` if no reply of a judge could be parsed: its zeros would mean
    nothing.
    """
    failed: dict[str, list[bool]] = defaultdict(list)
    for each in scored:
        for name, given in each.replies.items():
            if given["by"] != Author.NOBODY.value:
                failed[name].append(given["failed"])
    for name, every in failed.items():
        if all(every):
            raise InfrastructureError(
                f"{name}: none of its {len(every)} replies has the required form: use another "
                "judge, or allow longer replies (--judge-reply-tokens)"
            )


def _check_whole(folder: RunFolder) -> None:
    """Raise `UserError` if a run has no trajectories, or the last one was cut off."""
    path = folder.trajectories_file
    if not path.is_file():
        raise UserError(f"{path}: there are no trajectories; play the run first")
    with path.open("rb") as file:
        if path.stat().st_size and file.seek(-1, os.SEEK_END) and file.read(1) != b"\n":
            raise UserError(
                f"{path} ends in the middle of a trajectory, because the run was stopped: run the "
                "same command again to finish it"
            )
