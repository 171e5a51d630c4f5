"""ALDEN's rewriting of questions to page indexes (arXiv 2510.25668, appendix A.1).

Many questions of MP-DocVQA were written for somebody who already looks at the page, such as "What
is the date?". A model labels each question: 1 if its own words do not lead to the page. Such a
question then begins with the number of its page. The paper does not say how often it asks; here
the majority of three replies decides, and questions with several gold pages stay as they are.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import PromptSpec, PromptTemplate, load_prompt
from docagent_rl.endpoints.chat_reply import ReplyError, Unanswered
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.samples.sample import Sample

PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question"}),
    shown=frozenset({"question"}),
)
_LABEL = re.compile(r'\{\s*"label"\s*:\s*"?([01])"?\s*\}')
_NAMED_PAGE = re.compile(r"\b(?:page|slide|sheet)s?\s+(?:number\s+|no\.?\s*)?\d", re.IGNORECASE)
_OPENING = re.compile(
    r"(?:what|which|who|whom|whose|when|where|why|how|is|are|was|were|do|does|did|has|have|can)\b",
    re.IGNORECASE,
)


class RewriteOutcome(StrEnum):
    """The reason why a question was rewritten or stays, in the order of the filters."""

    NO_PAGE = "no gold page"
    SEVERAL_PAGES = "several gold pages"
    NAMES_PAGE = "names a page already"
    NO_LABEL = "the model gave no label"
    FINDABLE = "its words lead to the page (label 0)"
    REWRITTEN = "rewritten (label 1)"


@dataclass(slots=True)
class Rewriting:
    """Questions on the way to page indexes; `run` asks the model about those that filters leave.

    Args:
        samples: the questions.
        model: labels the questions; its cache makes a run resumable.
        votes: how often it is asked about each question, an odd number.
        prompt: the labelling prompt.
    """

    samples: Sequence[Sample]
    model: RemoteModel
    votes: int = 3
    prompt: PromptTemplate = field(default_factory=lambda: load_prompt("page_reference", PROMPT))
    outcomes: dict[int, RewriteOutcome] = field(default_factory=dict, init=False)
    """The outcome of each question, by its place."""
    unanswered: Counter[str] = field(default_factory=Counter, init=False)
    """Questions without a label because requests failed, by reason."""
    _failures: Unanswered = field(default_factory=Unanswered, init=False)

    def __post_init__(self) -> None:
        for place, sample in enumerate(self.samples):
            if (outcome := filtered(sample)) is not None:
                self.outcomes[place] = outcome

    @property
    def asked(self) -> list[int]:
        """The places of the questions that the model has to label."""
        return [place for place in range(len(self.samples)) if place not in self.outcomes]

    async def run(self, tick: Callable[[], None]) -> None:
        """Ask about all questions; call `tick` after each.

        Raises:
            BudgetError: the budget is spent; replies are cached.
            InfrastructureError: the endpoint fails for many requests, or refuses all of them.
        """
        places = self.asked
        await run_jobs(places, self._label, at_once=self.model.endpoint.concurrency, done=tick)

    def result(self) -> list[Sample]:
        """Return all questions in order, those with label 1 rewritten."""
        return [
            with_page(sample) if self.outcomes.get(place) is RewriteOutcome.REWRITTEN else sample
            for place, sample in enumerate(self.samples)
        ]

    def counts(self) -> dict[str, int]:
        """Return the number of questions by outcome, in the order of the filters."""
        found = Counter(self.outcomes.values())
        return {outcome.value: found[outcome] for outcome in RewriteOutcome}

    async def _label(self, place: int) -> None:
        messages = self._messages(self.samples[place].question)
        ones = 0
        replies = 0
        for vote in range(self.votes):
            try:
                reply = await self.model.ask(messages, reply_label, sample=vote)
            except InfrastructureError as error:
                why = self._failures.reason(error)
                if why is None:
                    raise
                self.unanswered[why] += 1
                self.outcomes[place] = RewriteOutcome.NO_LABEL
                return
            self._failures.answered()
            ones += reply_label(reply.text)
            replies += 1
            if max(ones, replies - ones) > self.votes // 2:
                break
        decided = RewriteOutcome.REWRITTEN if 2 * ones > replies else RewriteOutcome.FINDABLE
        self.outcomes[place] = decided

    def _messages(self, question: str) -> list[Mapping[str, Any]]:
        return [
            {"role": role, "content": self.prompt.render(role, question=question)}
            for role in ("system", "user")
            if role in self.prompt
        ]


def filtered(sample: Sample) -> RewriteOutcome | None:
    """Return why a question stays as it is without asking a model; None if a model decides."""
    pages = sample.gold_pages
    if not pages:
        return RewriteOutcome.NO_PAGE
    if len(pages) > 1 or not sample.evidence_pages:
        return RewriteOutcome.SEVERAL_PAGES
    if _NAMED_PAGE.search(sample.question):
        return RewriteOutcome.NAMES_PAGE
    return None


def reply_label(text: str) -> int:
    """Return the label in a reply, 0 or 1.

    Raises:
        ReplyError: there is none, or there are different ones.
    """
    found = {int(label) for label in _LABEL.findall(text)}
    if len(found) != 1:
        raise ReplyError(f"the reply has no field label with 0 or 1: {json.dumps(text[:80])}")
    return found.pop()


def with_page(sample: Sample) -> Sample:
    """Return a question that begins with its page: "In page 5, what is the date?".

    The number is that of the page in the document that the environment serves, from 1. The question
    as it was stays in `extra.native_question`.
    """
    (page,) = sample.evidence_pages
    question = sample.question.lstrip()
    if _OPENING.match(question):  # a name keeps its capital
        question = question[0].lower() + question[1:]
    extra = {**sample.extra, "native_question": sample.question, "page_reference": page}
    return replace(sample, question=f"In page {page}, {question}", extra=extra)
