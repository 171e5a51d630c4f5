"""A second look at free text that is unlike the references: a judge may find that it says the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from docagent_rl.collect.case import Case
from docagent_rl.collect.filters import Answer, Filter, score
from docagent_rl.rewards.answer_kinds import AnswerKind, kind_of
from docagent_rl.rewards.judge import Judge

_AT_A_TIME = 16


async def judged(cases: Sequence[Case], filters: Sequence[Filter], judge: Judge) -> list[Case]:
    """Cases with the judge's verdict where a filter asks for one.

    It is asked about sessions that the filters before let through, whose answer is free text and too unlike
    the references. What names something (a date, a number) is right or wrong without it.

    Args:
        cases: sessions that were played.
        filters: in order; those behind the first `Answer` with `judged` do not matter.
        judge: of the run.

    Raises:
        InfrastructureError: the judge failed.
    """
    left, asking = list(cases), next((f for f in filters if isinstance(f, Answer) and f.judged), None)
    if asking is None:
        return left
    for step in filters[: filters.index(asking)]:
        left = [case for case, keep in zip(left, step.keep(left), strict=True) if keep]
    places = asyncio.Semaphore(_AT_A_TIME)

    async def verdict(case: Case) -> Case:
        async with places:
            references = ("; ".join(case.references),) if case.listing else case.references
            found = await judge.judge(case.asked, references, case.prediction or "")
        return replace(case, verdict=found)

    doubtful = [case for case in left if _doubtful(case, asking)]
    known = {case.key: case for case in await asyncio.gather(*map(verdict, doubtful))}
    return [known.get(case.key, case) for case in cases]


def _doubtful(case: Case, asking: Answer) -> bool:
    if not case.references or not (case.prediction or "").strip():
        return False
    free = any(kind_of(reference) is AnswerKind.TEXT for reference in case.references)
    return free and score(case, asking.by, asking.threshold) < asking.threshold
