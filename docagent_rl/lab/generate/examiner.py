"""The filters that ask a model, each with a small question of its own."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from docagent_rl.endpoints.chat_reply import Unanswered
from docagent_rl.lab.generate.config import EvidenceKind, FilterConfig
from docagent_rl.lab.generate.draft import DroppedQuestion, DropStage, QuestionDraft, shape_problem
from docagent_rl.lab.generate.pages import PageViews
from docagent_rl.lab.generate.replies import (
    Cleared,
    Guessed,
    NoReplyError,
    PageAnswer,
    Prompts,
    ShapeReader,
    UnreadableError,
    conversation,
    fill,
    page_answer,
)
from docagent_rl.rewards.judge_client import RemoteJudge
from docagent_rl.rewards.rule_judge import RuleJudge


@dataclass(frozen=True, slots=True)
class Examiner:
    """Applies the filters in order, and stops at the first that a question fails.

    Answers that the rules do not find equal are compared by `judge`, if there is one.
    """

    reader: ShapeReader
    judge: RemoteJudge | None
    views: PageViews
    prompts: Prompts
    filters: FilterConfig
    _unanswered: Unanswered = field(default_factory=Unanswered)

    async def examine(self, draft: QuestionDraft) -> DroppedQuestion | None:
        """Return why a question is dropped, or `None` if it passes.

        Raises:
            BudgetError: a request might exceed the budget.
            InfrastructureError: an endpoint fails for many requests, or refuses them.
        """
        filters = self.filters
        unanswerable = draft.slot.kind is EvidenceKind.UNANSWERABLE
        if problem := shape_problem(draft):
            return DroppedQuestion(draft.slot, DropStage.SHAPE, problem, draft)
        checks = (
            (filters.closed_book and not unanswerable, DropStage.CLOSED_BOOK, self._guessed),
            (filters.clear, DropStage.UNCLEAR, self._unclear),
            (filters.grounded and not unanswerable, DropStage.UNGROUNDED, self._ungrounded),
            (filters.needed and len(draft.pages) > 1, DropStage.UNNEEDED, self._unneeded),
            (filters.elsewhere and not unanswerable, DropStage.ELSEWHERE, self._elsewhere),
            (filters.unanswered and unanswerable, DropStage.ANSWERED, self._answered),
        )
        for wanted, stage, check in checks:
            try:
                reason = await check(draft) if wanted else None
            except NoReplyError as error:
                return DroppedQuestion(
                    draft.slot, DropStage.UNCHECKED, f"{stage.value}: {error}", draft
                )
            except UnreadableError as error:
                return DroppedQuestion(
                    draft.slot, DropStage.UNREAD, f"{stage.value}: {error}", draft
                )
            if reason:
                return DroppedQuestion(draft.slot, stage, reason, draft)
        return None

    async def _guessed(self, draft: QuestionDraft) -> str | None:
        prompt = self.prompts["closed_book"]
        messages = conversation(prompt, fill(prompt, "user", question=draft.question))
        guessed = await self.reader.read(prompt, messages, Guessed)
        return (
            "guessed from the question alone" if await self._right(draft, guessed.answer) else None
        )

    async def _unclear(self, draft: QuestionDraft) -> str | None:
        prompt = self.prompts["clear"]
        messages = conversation(prompt, fill(prompt, "user", question=draft.question))
        verdict = await self.reader.read(prompt, messages, Cleared)
        return None if verdict.clear else " ".join(verdict.why.split())[:200] or "no reason given"

    async def _ungrounded(self, draft: QuestionDraft) -> str | None:
        answered = await self._answer(draft, draft.pages)
        if not answered.answerable:
            return "the evidence contains no answer"
        return (
            None
            if await self._right(draft, answered.answer)
            else "the evidence contains another answer"
        )

    async def _unneeded(self, draft: QuestionDraft) -> str | None:
        for page in draft.pages:
            if await self._answers_rightly(
                draft, [other for other in draft.pages if other != page]
            ):
                return f"answered without page {page}"
        return None

    async def _elsewhere(self, draft: QuestionDraft) -> str | None:
        known = self.views.of(draft.slot.doc_id)
        others = [page for page in known.readable if page not in draft.pages]
        if not others:
            return None
        words = f"{draft.question} {draft.answer}"
        pages = await asyncio.to_thread(
            known.most_similar, words, others, self.filters.elsewhere_pages
        )
        found = await self._answers_rightly(draft, pages)
        return f"answered from pages {', '.join(map(str, pages))}" if found else None

    async def _answered(self, draft: QuestionDraft) -> str | None:
        known = self.views.of(draft.slot.doc_id)
        window = self.filters.window
        # the likeliest pages first: if they answer the question, no further request is needed
        first = await asyncio.to_thread(known.most_similar, draft.question, known.readable, window)
        rest = [page for page in known.readable if page not in first]
        for shown in (
            first,
            *(rest[start : start + window] for start in range(0, len(rest), window)),
        ):
            if (await self._answer(draft, shown)).answerable:
                return f"answered from pages {', '.join(map(str, shown))}"
        return None

    async def _answer(self, draft: QuestionDraft, pages: Sequence[int]) -> PageAnswer:
        prompt = self.prompts["answer"]
        words = fill(prompt, "user", question=draft.question)
        content = await asyncio.to_thread(self.views.content, words, draft.slot.doc_id, pages)
        return await self.reader.read(prompt, conversation(prompt, content), PageAnswer)

    async def _answers_rightly(self, draft: QuestionDraft, pages: Sequence[int]) -> bool:
        answered = await self._answer(draft, pages)
        return answered.answerable and await self._right(draft, answered.answer)

    async def _right(self, draft: QuestionDraft, answer: str) -> bool:
        if not answer.strip():
            return False
        if await RuleJudge().judge(draft.question, [draft.answer], answer) > 0:
            return True
        if self.judge is None:
            return False
        judging = self.judge.judge(draft.question, [draft.answer], answer)
        return await page_answer(judging, self._unanswered, "the judge was cut off") > 0
