"""A second look at trajectories that a filter would drop: a judge may find otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.endpoints.chat_reply import CutOffError, Refusals
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.endpoints.usage import image_part
from docagent_rl.envs.images import jpeg
from docagent_rl.lab.agents.run_folder import Key
from docagent_rl.lab.collect.case import Case
from docagent_rl.lab.collect.filters import Answer, Evidence, Filter, score
from docagent_rl.rewards.answer_kinds import AnswerKind, kind_of
from docagent_rl.rewards.judge import Judge
from docagent_rl.rewards.judge_client import parse_verdict, spells_verdict

if TYPE_CHECKING:
    from docagent_rl.endpoints.remote_model import RemoteModel


EVIDENCE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "answer", "pages"}),
    shown=frozenset({"question", "answer"}),
)
_MOST_PIXELS = 1024 * 1024
"""Pixels of a page; about what Doc-V* shows for reading (1024 x 768)."""


@dataclass(frozen=True, slots=True)
class PageJudge:
    """A judge of pages and answers behind an endpoint that takes images; cached and budgeted by `model`."""

    model: RemoteModel
    store: DocumentStore
    prompt: PromptTemplate = field(default_factory=lambda: load_prompt("evidence", EVIDENCE_PROMPT))

    async def supports(self, question: str, answer: str, pages: Sequence[PageRef]) -> bool:
        """Return whether what the pages show is enough for the answer; without pages nothing is.

        Raises:
            BudgetError: what may be spent is spent.
            InfrastructureError: the judge failed.
        """
        if not pages:
            return False
        messages = await asyncio.to_thread(self._messages, question, answer, pages)
        echoes = spells_verdict(question, (), answer)
        reply = await self.model.ask(messages, lambda text: parse_verdict(text, echoes=echoes))
        return parse_verdict(reply.text, echoes=echoes)

    def _messages(self, question: str, answer: str, pages: Sequence[PageRef]) -> list[dict[str, Any]]:
        values = {"question": question, "answer": answer, "pages": [str(page.page) for page in pages]}
        asked: list[dict[str, Any]] = [{"type": "text", "text": self.prompt.render("user", **values)}]
        asked += [image_part(self._jpeg(page)) for page in pages]
        system = [{"role": "system", "content": self.prompt.render("system", **values)}]
        return [*(system if "system" in self.prompt else []), {"role": "user", "content": asked}]

    def _jpeg(self, page: PageRef) -> bytes:
        return jpeg(self.store.decode(self.store.page(page).image_hash), most_pixels=_MOST_PIXELS)


_AT_A_TIME = 16
Look = Callable[[Case], Awaitable[Case]]
"""Takes a case, and returns it with the verdict of a judge."""


async def judged(
    cases: Sequence[Case],
    filters: Sequence[Filter],
    judge: Judge | None = None,
    evidence: PageJudge | None = None,
) -> list[Case]:
    """Return cases with the verdicts that filters ask for, about trajectories that those before let through.

    About answers in free text that are too unlike the references, a judge is asked whether they say the same;
    what names something (a date, a number) is right or wrong without it. About trajectories whose pages are
    not gold, a judge that sees them is asked whether they support the answer. A trajectory about which a
    judge gives no verdict that can be read, or whose request it refuses, has none (`Case.unjudged`). Without
    a `judge` of answers, or of `evidence`, nobody is asked.

    Raises:
        UserError: a page cannot be read, or the budget is spent (`BudgetError`).
        InfrastructureError: a judge failed.
    """
    left, seen = list(cases), {case.key: case for case in cases}
    for step in filters:
        if isinstance(step, Answer) and step.judged and judge is not None:
            doubtful = [case for case in left if _may_be_same(case, step)]
            await _look_at(doubtful, partial(_same, judge=judge), seen)
        elif isinstance(step, Evidence) and step.judged and evidence is not None:
            unseen = [case for case in left if case.supported is None and not case.unjudged]
            doubtful = [case for case in unseen if not step.rests(case) and _pages(case, step)]
            await _look_at(doubtful, partial(_supported, step=step, evidence=evidence), seen)
        left = [seen[case.key] for case in left]
        left = [case for case, keep in zip(left, step.keep(left), strict=True) if keep]
    return [seen[case.key] for case in cases]


async def _look_at(cases: Sequence[Case], look: Look, seen: dict[Key, Case]) -> None:
    """Ask about each, some at a time, and put it into `seen`. What is in flight ends when one fails."""
    refusals = Refusals()

    async def one(case: Case) -> None:
        try:
            seen[case.key] = await look(case)
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
    if (
        case.verdict is not None
        or case.unjudged
        or not case.references
        or not (case.prediction or "").strip()
    ):
        return False
    free = any(kind_of(reference) is AnswerKind.TEXT for reference in case.references)
    return free and score(case, step.by, step.threshold) < step.threshold


async def _same(case: Case, judge: Judge) -> Case:
    verdict = await judge.judge(case.text, case.judge_references(), case.prediction or "")
    return replace(case, verdict=verdict)


def _pages(case: Case, step: Evidence) -> list[PageRef]:
    """Return pages that the trajectory rests on and that were shown: one that is only named may not exist."""
    return sorted(PageRef.parse(page) for page in step.found(case) & case.shown)


async def _supported(case: Case, step: Evidence, evidence: PageJudge) -> Case:
    supported = await evidence.supports(case.text, case.prediction or "", _pages(case, step))
    return replace(case, supported=supported)
