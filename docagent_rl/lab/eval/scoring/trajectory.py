"""Scoring one recorded trajectory, asking whoever has to be asked."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import Price
from docagent_rl.envs.checks import references
from docagent_rl.envs.system import PaperJudge
from docagent_rl.lab.eval.metrics.judges import AnswerJudge, Extractor, Flavour, is_judged
from docagent_rl.lab.eval.metrics.word_f1 import squad_f1
from docagent_rl.lab.eval.scoring.experts import (
    EXPERTS,
    UNASKED,
    Author,
    Case,
    Expert,
    Opinion,
    opinion,
    parsed,
)
from docagent_rl.lab.eval.scoring.labels import labels_of
from docagent_rl.lab.eval.scoring.official import Official, Subject, refuses
from docagent_rl.lab.eval.scoring.played import Played, read_trajectory
from docagent_rl.lab.eval.scoring.protocols import judged_values, paper_judge, paper_measures, protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory, plain
from docagent_rl.lab.eval.scoring.use import navigation_values, use_values
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.rewards.text import anls, squad_normalise
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.sample import Sample

if TYPE_CHECKING:
    from docagent_rl.endpoints.remote_model import RemoteModel

Opinions = Mapping[Expert, Opinion]


@dataclass(frozen=True, slots=True)
class ScoringSettings:
    """How a run is scored.

    Args:
        judge: the model that gives opinions; `None` is the embedded rule judge.
        second: gives a model's opinions again, so that their agreement can be told; `None` is the rule judge.
        experts: asked of every trajectory beyond those that its benchmark and its system need.
        price: of the model that played.
        concurrency: trajectories at a time.
        extractor: who shortened the answers that come with a short one (`run_facts.extractor_of`).
    """

    judge: RemoteModel | None = None
    second: RemoteModel | None = None
    experts: frozenset[Expert] = frozenset()
    price: Price | None = None
    concurrency: int = 64
    extractor: str = Author.SYSTEM.value


async def score_trajectory(trajectory: Trajectory, agent: str, settings: ScoringSettings) -> ScoredTrajectory:
    """Score a trajectory. One that was not played, or gave no answer, is wrong.

    Raises:
        UserError: its sample is none, or the budget is spent (`BudgetError`).
        InfrastructureError: the judge's service is dead.
    """
    sample, played = _sample_of(trajectory), read_trajectory(trajectory)
    opinions: Opinions = {}
    second: Opinions = {}
    rule = 0.0
    if _known(sample):
        case = Case(
            sample.question,
            references(sample),
            played.answer,
            played.extracted,
            settings.extractor,
            _flavour(trajectory.system),
        )
        wanted = _experts_for(sample.dataset, trajectory.system, settings.experts)
        asked = [expert for expert in wanted if _goes_to(expert, trajectory, played)]
        unasked = {expert: UNASKED for expert in wanted if expert not in asked}
        opinions = unasked | {expert: await opinion(settings.judge, expert, case) for expert in asked}
        if settings.judge is not None:
            judges = [expert for expert in asked if not isinstance(expert, Extractor)]
            second = {expert: await opinion(settings.second, expert, case) for expert in judges}
        if played.answer is not None:
            rule = await RuleJudge().judge(case.question, case.references, played.answer)
    return await asyncio.to_thread(
        _scored, trajectory, sample, played, agent, opinions, second, rule >= 1.0, settings.price
    )


def _experts_for(dataset: str, system: str, more: Iterable[Expert]) -> list[Expert]:
    """Return whose opinion a trajectory needs, in a fixed order."""
    wanted = {*protocol_of(dataset).experts, *more, *(each.expert for each in paper_measures(system))}
    return [expert for expert in EXPERTS if expert in wanted]


def _scored(
    trajectory: Trajectory,
    sample: Sample,
    played: Played,
    agent: str,
    opinions: Opinions,
    second: Opinions,
    rule: bool,
    price: Price | None,
) -> ScoredTrajectory:
    official, values = Official({}, played.answer), {}
    flavour = _flavour(trajectory.system)
    verdicts = {expert: parsed(expert, opinion.reply, flavour) for expert, opinion in opinions.items()}
    if _known(sample):
        official = protocol_of(sample.dataset).score(Subject(sample, played, opinions))
        values = _general(sample, played.answer, rule) | official.values | judged_values(verdicts)
    # an environment that has shown pages and not written down which says nothing about navigation
    if not trajectory.masked and (played.collected or not trajectory.metrics.get("pages_seen")):
        values |= navigation_values(sample, played)
    return ScoredTrajectory(
        question_id=sample.question_id,
        number=trajectory.number,
        document=sample.doc_id,
        dataset=sample.dataset,
        system=trajectory.system,
        agent=agent,
        status=trajectory.status,
        reason=trajectory.end,
        scored=_known(sample),
        answer=played.answer,
        prediction=plain(official.prediction),
        labels=labels_of(sample),
        groups=list(official.groups),
        values=values | use_values(trajectory, price),
        experts=_described(opinions, flavour),
        second=_described(second, flavour),
        environment=dict(trajectory.metrics),
    )


def _flavour(system: str) -> Flavour:
    """Return by whose rules a reply of True or False is read."""
    return Flavour.UNIDOC if paper_judge(system) is PaperJudge.TRUE_FALSE else Flavour.VRAG


def _goes_to(expert: Expert, trajectory: Trajectory, played: Played) -> bool:
    gated = paper_judge(trajectory.system) is PaperJudge.TRUE_FALSE_AFTER_SEARCH
    return not gated or expert is not AnswerJudge.TRUE_FALSE or is_judged(played.response)


def _sample_of(trajectory: Trajectory) -> Sample:
    try:
        return Sample.from_dict(trajectory.sample)
    except UserError as error:
        raise UserError(
            f"trajectory {trajectory.number} of {trajectory.uid!r}: its sample: {error}"
        ) from error


def _known(sample: Sample) -> bool:
    """Return whether the right answer is known; test rows of some benchmarks hide it."""
    return sample.answerable is False or bool(sample.answers)


def _general(sample: Sample, answer: str | None, rule: bool) -> dict[str, float | None]:
    """Return the values that every benchmark gets; the best over the right answers."""
    if sample.answerable is False:
        right = float(refuses(sample.question, answer))
        return {"rule": float(rule), "exact": right, "word_f1": right, "similarity": right}
    golds, given = references(sample), answer or ""
    words = squad_normalise(given)
    return {
        "rule": float(rule),
        "exact": float(bool(words) and any(words == squad_normalise(gold) for gold in golds)),
        "word_f1": max(squad_f1(gold, given) for gold in golds),
        "similarity": max(anls(gold, given) for gold in golds),
    }


def _described(opinions: Opinions, flavour: Flavour) -> dict[str, dict[str, Any]]:
    return {
        expert.value: {
            "value": plain(parsed(expert, opinion.reply, flavour)),
            "by": opinion.by,
            "failed": opinion.failed,
        }
        for expert, opinion in opinions.items()
    }
