"""Panels, which give opinions: a model behind an endpoint, and the rules that stand in for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.chat_reply import CutOffError, ReplyError, reply_text
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.lab.eval.metrics.judges import Extractor, Flavour
from docagent_rl.lab.eval.scoring.experts import (
    UNASKED,
    Author,
    Expert,
    Opinion,
    messages,
    require_readable,
    ruled,
    shortened,
)
from docagent_rl.rewards.judge import Judge
from docagent_rl.rewards.rule_judge import RuleJudge


@dataclass(frozen=True, slots=True)
class Case:
    """An answer that is to be judged.

    Args:
        question: of the session.
        references: right answers, as judges take them (`envs.checks.references`).
        answer: of the session; `None` when it gave none.
        extracted: the system's own short answer, where it has one.
        flavour: by whose rules a reply of True or False is read.
    """

    question: str
    references: tuple[str, ...]
    answer: str | None
    extracted: str | None = None
    flavour: Flavour = Flavour.VRAG


class Panel(Protocol):
    """Gives opinions."""

    @property
    def name(self) -> str:
        """Name of the model, or an `Author`."""
        ...

    async def opinion(self, expert: Expert, case: Case) -> Opinion:
        """Give the opinion of an expert.

        Raises:
            BudgetError: the budget is spent.
            InfrastructureError: the service is dead.
        """
        ...


@dataclass(frozen=True, slots=True)
class RulePanel:
    """The embedded rule judge; never fails and asks nobody.

    Args:
        judge: of answers.
        extractor: who shortened the answers that come with a short one (`run_facts.extractor_of`).
    """

    judge: Judge = field(default_factory=RuleJudge)
    extractor: str = Author.SYSTEM.value

    @property
    def name(self) -> str:
        """See `Panel`."""
        return Author.RULE.value

    async def opinion(self, expert: Expert, case: Case) -> Opinion:
        """See `Panel`."""
        if case.answer is None:
            return UNASKED
        if isinstance(expert, Extractor):
            by = Author.RULE.value if case.extracted is None else self.extractor
            return Opinion(shortened(expert, case.question, case.answer, case.extracted), by)
        right = await self.judge.judge(case.question, case.references, case.answer)
        return Opinion(ruled(expert, right >= 1.0), Author.RULE.value)


@dataclass(frozen=True, slots=True)
class ModelPanel:
    """A model behind an endpoint; opinions are kept in its cache."""

    model: RemoteModel

    @property
    def name(self) -> str:
        """See `Panel`."""
        return self.model.endpoint.model

    async def opinion(self, expert: Expert, case: Case) -> Opinion:
        """See `Panel`. A reply that cannot be read after all attempts is a failure of the judge.

        One that was cut off is read as far as it came, as the benchmarks do: a grade may stand there.
        """
        if case.answer is None:
            return UNASKED
        sent = messages(expert, case.question, case.references, case.answer)

        def accept(text: str) -> None:
            require_readable(expert, reply_text(text), case.flavour)

        try:
            try:
                reply = await self.model.ask(sent, accept)
            except CutOffError:
                reply = await self.model.ask(sent, accept, partial=True)
        except InfrastructureError as error:
            if isinstance(error.__cause__, ReplyError):
                return Opinion(None, self.name, failed=True)
            raise
        return Opinion(reply_text(reply.text), self.name)
