"""A second look at answers that a filter would drop: a judge may find them right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_reply import CutOffError, Refusals
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.lab.agents.run_folder import Key
from docagent_rl.lab.collect.case import Case
from docagent_rl.lab.collect.filters import Answer, Filter, score
from docagent_rl.rewards.answer_kinds import AnswerKind, kind_of
from docagent_rl.rewards.judge import Judge

_AT_A_TIME = 16


async def judged(cases: Sequence[Case], filters: Sequence[Filter], judge: Judge) -> list[Case]:
    """Return cases with the verdicts that filters ask for, about trajectories that those before let through.

    About answers in free text that are too unlike the references, the judge is asked whether they say the
    same; what names something (a date, a number) is right or wrong without it. A trajectory about which it
    gives no verdict that can be read, or whose request it refuses, has none (`Case.unjudged`).

    Raises:
        BudgetError: the budget is spent.
        InfrastructureError: the judge failed.
    """
    left, seen = list(cases), {case.key: case for case in cases}
    for step in filters:
        if isinstance(step, Answer) and step.judged:
            await _ask([case for case in left if _may_be_same(case, step)], judge, seen)
        left = [seen[case.key] for case in left]
        left = [case for case, keep in zip(left, step.keep(left), strict=True) if keep]
    return [seen[case.key] for case in cases]


async def _ask(cases: Sequence[Case], judge: Judge, seen: dict[Key, Case]) -> None:
    """Ask about each, some at a time, and put it into `seen`. What is in flight ends when one fails."""
    refusals = Refusals()

    async def one(case: Case) -> None:
        try:
            verdict = await judge.judge(case.text, case.judge_references(), case.prediction or "")
            seen[case.key] = replace(case, verdict=verdict)
        except CutOffError as error:
            seen[case.key] = replace(case, unjudged=str(error))
        except InfrastructureError as error:
            if (why := refusals.of_one(error)) is None:
                raise
            seen[case.key] = replace(case, unjudged=why)
        else:
            refusals.answered()

    await run_jobs(cases, one, at_once=_AT_A_TIME)


def _may_be_same(case: Case, step: Answer) -> bool:
    asked = case.verdict is not None or case.unjudged
    if asked or not case.references or not (case.prediction or "").strip():
        return False
    free = any(kind_of(reference) is AnswerKind.TEXT for reference in case.references)
    return free and score(case, step.by, step.threshold) < step.threshold
