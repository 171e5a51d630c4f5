"""A recorded session, and what experts said of it, as a scored one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.endpoints.endpoint import Price
from docagent_rl.envs.checks import references
from docagent_rl.envs.system import PaperJudge
from docagent_rl.lab.eval.metrics.judged import Flavour, is_judged
from docagent_rl.lab.eval.metrics.overlap import overlap
from docagent_rl.lab.eval.metrics.prompt_files import AnswerJudge
from docagent_rl.lab.eval.scoring.asking import Case
from docagent_rl.lab.eval.scoring.experts import Expert, Opinion, Opinions, parsed
from docagent_rl.lab.eval.scoring.labels import labels_of
from docagent_rl.lab.eval.scoring.numbers import navigation_values, use_values
from docagent_rl.lab.eval.scoring.official import Subject
from docagent_rl.lab.eval.scoring.played import Played, read_session
from docagent_rl.lab.eval.scoring.protocols import judged_values, paper_judge, protocol_of
from docagent_rl.lab.eval.scoring.refusal import refuses
from docagent_rl.lab.eval.scoring.scored import ScoredSession, plain
from docagent_rl.records.record import Record
from docagent_rl.rewards.text import anls, squad_normalise
from docagent_rl.rollout.trajectory import Trajectory


def case_of(record: Record, played: Played, system: str) -> Case:
    """What experts see of a session of a system.

    Raises:
        UserError: the right answer is not known.
    """
    right, flavour = references(record), flavour_of(system)
    return Case(record.question, right, played.answer, played.extracted, flavour)


def flavour_of(system: str) -> Flavour:
    """By whose rules a reply of True or False is read."""
    return Flavour.UNIDOC if paper_judge(system) is PaperJudge.TRUE_FALSE else Flavour.VRAG


def goes_to(expert: Expert, trajectory: Trajectory, played: Played) -> bool:
    """Whether an expert is asked about a session."""
    gated = paper_judge(trajectory.system) is PaperJudge.TRUE_FALSE_AFTER_SEARCH
    return not gated or expert is not AnswerJudge.TRUE_FALSE or is_judged(played.response, Flavour.VRAG)


def record_of(trajectory: Trajectory) -> Record:
    """The question of a session.

    Raises:
        UserError: names the session whose record is none.
    """
    try:
        return Record.from_dict(trajectory.record)
    except UserError as error:
        raise UserError(f"session {trajectory.session} of {trajectory.uid!r}: its record: {error}") from error


def known(record: Record) -> bool:
    """Whether the right answer is known; test rows of some benchmarks hide it."""
    return record.answerable is False or bool(record.answers)


def scored(
    trajectory: Trajectory,
    agent: str,
    opinions: Opinions,
    second: Opinions,
    rule: bool,
    price: Price | None = None,
) -> ScoredSession:
    """Score a session. One that was not played, or gave no answer, is wrong.

    Args:
        trajectory: the session.
        agent: name of who played.
        opinions: of the experts that are asked about its benchmark and system.
        second: of the second judge.
        rule: the embedded rule judge's verdict.
        price: of the model that played.

    Raises:
        UserError: its record is none.
    """
    record, played = record_of(trajectory), read_session(trajectory)
    use = use_values(trajectory, price)
    values: dict[str, float | None] = {}
    prediction: Any = played.answer
    groups: tuple[str, ...] = ()
    flavour = flavour_of(trajectory.system)
    told = {expert: parsed(expert, opinion.reply, flavour) for expert, opinion in opinions.items()}
    if known(record):
        official = protocol_of(record.dataset).score(Subject(record, played, opinions))
        prediction, groups = official.prediction, official.groups
        values |= _general(record, played.answer, rule) | official.values | judged_values(told)
    # an environment that has shown pages and not written down which says nothing about navigation
    if not trajectory.masked and (played.collected or not trajectory.metrics.get("pages_seen")):
        values |= navigation_values(record, played)
    return ScoredSession(
        question_id=record.question_id,
        session=trajectory.session,
        document=record.doc_id,
        dataset=record.dataset,
        system=trajectory.system,
        agent=agent,
        status=trajectory.status,
        reason=trajectory.end,
        scored=known(record),
        answer=played.answer,
        prediction=plain(prediction),
        labels=labels_of(record),
        groups=list(groups),
        values=values | use,
        experts=_described(opinions, told),
        second=_described(second, {e: parsed(e, o.reply, flavour) for e, o in second.items()}),
        environment=dict(trajectory.metrics),
    )


def _general(record: Record, answer: str | None, rule: bool) -> dict[str, float | None]:
    """Values that every benchmark gets; the best over the right answers."""
    if record.answerable is False:
        right = float(refuses(record.question, answer))
        return {"rule": float(rule), "exact": right, "word_f1": right, "similarity": right}
    golds, given = references(record), answer or ""
    words = squad_normalise(given)
    return {
        "rule": float(rule),
        "exact": float(bool(words) and any(words == squad_normalise(gold) for gold in golds)),
        "word_f1": max(_word_f1(gold, given) for gold in golds),
        "similarity": max(anls(gold, given) for gold in golds),
    }


def _word_f1(gold: str, given: str) -> float:
    return overlap(squad_normalise(gold).split(), squad_normalise(given).split())["f1"]


def _described(opinions: Mapping[Expert, Opinion], told: Mapping[Expert, Any]) -> dict[str, dict[str, Any]]:
    return {
        expert.value: {"value": plain(told[expert]), "by": opinion.by, "failed": opinion.failed}
        for expert, opinion in opinions.items()
    }
