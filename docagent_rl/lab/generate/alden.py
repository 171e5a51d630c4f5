"""Questions that cannot be searched for are made to name their page (ALDEN, appendix A).

Many questions were asked by readers who had the page in front of them. A model labels each: 1 where the
question's own words do not lead to its page. Those are asked about the page by its number.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.endpoints.usage import message_tokens
from docagent_rl.lab.generate.config import GenerateConfig, Kind
from docagent_rl.lab.generate.draft import named_pages
from docagent_rl.lab.generate.forecast import Forecast
from docagent_rl.lab.generate.funnel import digest_of, head
from docagent_rl.lab.generate.prompt_files import Prompts, conversation, fill
from docagent_rl.lab.generate.replies import Labelled, NoReplyError, ShapeReader, UnkeptError, UnreadableError
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.validation import check_sample

# words that are written small behind "On page 7, "
_SMALL = re.compile(
    r"(?:What|Which|Who|Whose|Whom|When|Where|Why|How|Is|Are|Was|Were|Does|Do|Did|Has|Have|Had|Can|Could|Will|In|On|At|By"
    r"|For|From|Of|To|The|A|An|According|List|Name|Give|State|Write)\b"
)
_LABEL_TOKENS = 10


class Decision(StrEnum):
    """The decision about a question."""

    REWRITTEN = "rewritten"
    SEARCHABLE = "left: its words lead to the page"
    NAMES_PAGE = "left: names a page already"
    SEVERAL = "left: several pages of evidence, or none"
    UNREADABLE = "left: no readable label"
    NO_REPLY = "left: no reply"


@dataclass(slots=True)
class Labelling:
    """The decisions about a set of questions."""

    decisions: dict[int, Decision] = field(default_factory=dict)
    """By the place of a question in the set."""

    def to_json(self, samples: Sequence[Sample], settings: str, written: str) -> str:
        """Return counts, and the decision about each question; see `funnel.head`."""
        counts = self.counts()
        decisions = {sample.question_id: self.decisions[place].value for place, sample in enumerate(samples)}
        entries = head(settings, counts[Decision.NO_REPLY.value], written)
        data = {**entries, "counts": counts, "questions": decisions}
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    def counts(self) -> dict[str, int]:
        """Return questions by decision, all decisions in their order."""
        found = Counter(self.decisions.values())
        return {decision.value: found[decision] for decision in Decision}


async def label_questions(
    samples: Sequence[Sample],
    model: RemoteModel,
    prompts: Prompts,
    config: GenerateConfig,
    labelling: Labelling,
    progress: Callable[[], None] | None = None,
) -> None:
    """Decide for each question whether it is to be rewritten; those that `labelling` has are left.

    Raises:
        BudgetError: the budget is used up.
        InfrastructureError: the endpoint fails for many requests, or refuses them; the message names
            question, document and page.
    """
    reader = ShapeReader(model, config.filters.tries, json_mode=config.json_mode)

    async def label(place: int) -> None:
        sample = samples[place]
        try:
            labelling.decisions[place] = _fixed(sample) or await _voted(sample, reader, prompts, config)
        except InfrastructureError as error:
            pages = ", ".join(map(str, sample.evidence_pages))
            where = f"question {sample.question_id!r}, document {sample.doc_id!r}, page {pages}"
            raise InfrastructureError(f"{where}: {error}") from error.__cause__

    waiting = (place for place in range(len(samples)) if place not in labelling.decisions)
    try:
        await run_jobs(waiting, label, at_once=model.endpoint.concurrency, done=progress)
    finally:
        await model.aclose()


def rewritten(samples: Sequence[Sample], labelling: Labelling, model: str, prompts: Prompts) -> list[Sample]:
    """Return all questions in their order, some with the page in them; they name `model` and prompt."""
    made = []
    for place, sample in enumerate(samples):
        decision = labelling.decisions[place]
        if decision is Decision.REWRITTEN:
            made.append(_rewritten(sample, model, prompts.label.digest))
        else:
            extra = {**sample.extra, "is_page_indexed": decision is Decision.NAMES_PAGE}
            made.append(dataclasses.replace(sample, extra=extra))
    return made


def digest_of_labels(samples: Sequence[Sample], model: str, prompts: Prompts, config: GenerateConfig) -> str:
    """Return the SHA-256 of what is asked for: equal runs over equal replies give equal files."""
    asked = {
        "model": model,
        "prompt": prompts.label.digest,
        "sampling": [dataclasses.asdict(config.sampling(vote)) for vote in range(config.votes)],
        "tries": config.filters.tries,
        "json_mode": config.json_mode.value,
        "questions": [sample.to_json() for sample in samples],
    }
    return digest_of(json.dumps(asked, sort_keys=True))


def forecast_labels(samples: Sequence[Sample], prompts: Prompts, config: GenerateConfig) -> Forecast:
    """Count what labelling would ask; sends nothing."""
    found = Forecast()
    for sample in samples:
        if needs_label(sample):
            tokens = message_tokens(label_messages(sample, prompts))
            found.step("label").add(tokens, _LABEL_TOKENS, config.votes)
    return found


def needs_label(sample: Sample) -> bool:
    """Return whether a model is asked about a question."""
    return _fixed(sample) is None


def label_messages(sample: Sample, prompts: Prompts) -> list[dict[str, Any]]:
    """Return the request about a question."""
    return conversation(prompts.label, fill(prompts.label, "user", question=sample.question))


def with_page(question: str, page: int) -> str:
    """Return the question about a page: `On page 7, what is the date?`"""
    words = question.strip()
    small = words[:1].lower() + words[1:] if _SMALL.match(words) else words
    return f"On page {page}, {small}"


async def _voted(sample: Sample, reader: ShapeReader, prompts: Prompts, config: GenerateConfig) -> Decision:
    votes, lacking = Counter(), False
    messages = label_messages(sample, prompts)
    for vote in range(config.votes):
        sampling, number = config.sampling(vote), config.numbered(vote)
        try:
            found = await reader.read(prompts.label, messages, Labelled, sampling=sampling, sample=number)
        except NoReplyError:
            return Decision.NO_REPLY
        except UnreadableError as error:
            lacking |= isinstance(error, UnkeptError)
            continue
        votes[found.label] += 1
        if max(votes.values()) > config.votes // 2:
            break  # the others cannot change it
    else:
        if lacking:  # a vote that the next run gets may change it
            return Decision.NO_REPLY
    if votes[1] == votes[0]:
        return Decision.UNREADABLE
    return Decision.REWRITTEN if votes[1] > votes[0] else Decision.SEARCHABLE


def _fixed(sample: Sample) -> Decision | None:
    """Return the decision about a question that needs no model."""
    if named_pages(sample.question):
        return Decision.NAMES_PAGE
    if len(sample.gold_pages) != 1 or len(sample.evidence_pages) != 1:
        return Decision.SEVERAL
    return None


def _rewritten(sample: Sample, model: str, digest: str) -> Sample:
    (page,) = sample.evidence_pages
    extra = {
        **sample.extra,
        "kind": Kind.PAGE_INDEX.value,
        "is_page_indexed": True,
        "original_question": sample.question,
        "rewriting": {"model": model, "prompt": digest},
    }
    return check_sample(dataclasses.replace(sample, question=with_page(sample.question, page), extra=extra))
