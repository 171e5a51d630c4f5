"""Judges and extractors of the benchmarks: requests, parsing of replies, and rules in their place.

A reply is always in the official form, no matter who gave it, so that one parser can read them all.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.prompts import PromptTemplate, load_prompt
from docagent_rl.base.untrusted import neutralized_values
from docagent_rl.endpoints.chat_reply import CutOffError, ReplyError, reply_text
from docagent_rl.endpoints.remote_model import RemoteModel
from docagent_rl.envs.checks import references
from docagent_rl.envs.system import PaperJudge
from docagent_rl.lab.eval.metrics import judges
from docagent_rl.lab.eval.metrics.accuracy import FAILED, longdocurl_parse
from docagent_rl.lab.eval.metrics.judges import AldenVerdict, AnswerJudge, Extractor
from docagent_rl.lab.eval.scoring.played import Played
from docagent_rl.rewards.mmlongbench import extracted_answer, unlabelled
from docagent_rl.rewards.rule.claims import QuestionHints
from docagent_rl.rewards.rule.refusals import declines
from docagent_rl.rewards.rule.words import fold
from docagent_rl.rewards.rule_judge import RuleJudge
from docagent_rl.samples.sample import Sample

ScoringRole = Extractor | AnswerJudge
"""A role whose reply a score depends on."""
SCORING_ROLES: tuple[ScoringRole, ...] = (*Extractor, *AnswerJudge)
_OWN_KEYS = re.compile(r"\"\s{0,9}(equivalent|abstained|judgment)\s{0,9}\"", re.I)
_OWN_TAGS = re.compile(
    r"<\s{0,9}(/?)\s{0,9}(judge|label|concise_answer|answer_format)\b[^<>]{0,80}>", re.I
)


class Author(StrEnum):
    """The source of a reply for which no model was asked."""

    RULE = "embedded rule judge"
    """Rules instead of a model; not for papers (docs/rule_judge.md)."""
    NOBODY = "nobody"
    """No judge was asked: there was no answer, or by the paper's rule the judge does not see it.
    The answer counts as wrong.
    """


@dataclass(frozen=True, slots=True)
class JudgeReply:
    """The reply of a judge or an extractor about the answer of a trajectory."""

    reply: str | None
    """In the official form; `None` if there was no answer to judge, or the judge failed."""
    by: str
    """An `Author`, or the name of a model."""
    failed: bool = False
    """No reply could be parsed, after all attempts; counts as wrong."""


UNASKED = JudgeReply(None, Author.NOBODY.value)
"""The reply about a trajectory without an answer, or with one that by the paper's rule the judge
does not see.
"""


@dataclass(frozen=True, slots=True)
class JudgedAnswer:
    """A trajectory to be scored: its question, whose gold answer is known, its answer and its
    pages.
    """

    sample: Sample
    played: Played
    replies: Mapping[ScoringRole, JudgeReply] = field(default_factory=dict)
    judge: PaperJudge | None = None
    """The judge of its system's paper, by whose rules a True or False reply is parsed."""

    def reply(self, role: ScoringRole) -> str | None:
        """Return the text of a role's reply, if there is one."""
        found = self.replies.get(role)
        return None if found is None else found.reply


async def reply_of(
    model: RemoteModel | None, role: ScoringRole, judged_answer: JudgedAnswer
) -> JudgeReply:
    """Return a role's reply, from the model, or without one from the embedded rule judge.

    Raises:
        BudgetError: the budget is spent.
        InfrastructureError: the service is down.
    """
    answer = judged_answer.played.answer
    question = judged_answer.sample.question
    if answer is None:
        return UNASKED
    if model is not None:
        return await _asked(model, role, judged_answer, answer)
    if isinstance(role, Extractor):
        return JudgeReply(
            extracted_form(role, question, answer, judged_answer.played.extracted),
            Author.RULE.value,
        )
    right = await RuleJudge().judge(question, _rule_references(role, judged_answer.sample), answer)
    return JudgeReply(ruled(role, question, answer, right=right >= 1.0), Author.RULE.value)


def ruled(judge: AnswerJudge, question: str, answer: str, *, right: bool) -> str:
    """Return the embedded rule judge's verdict in the form of a judge's reply."""
    if judge is AnswerJudge.MMLONGBENCH_DOC_V2:
        return json.dumps(
            {"equivalent": right, "abstained": declines(fold(answer), QuestionHints(question))}
        )
    return RULED[judge][right]


def references_for(role: ScoringRole, sample: Sample) -> list[str]:
    """Return the right answers shown to a judge; for MMLongBench-Doc-V2 the unchanged gold
    answer.
    """
    gold = sample.extra.get("gold")
    if role is AnswerJudge.MMLONGBENCH_DOC_V2 and isinstance(gold, str):
        return [gold]
    if role is AnswerJudge.MADQA:
        return ["; ".join(items) for items in gold_variants(sample)]
    return list(references(sample))


def _rule_references(role: ScoringRole, sample: Sample) -> list[str]:
    """Return the right answers with which the rules compare; a gold answer that lists several forms
    is split.
    """
    golds = list(references(sample))
    if role is AnswerJudge.MMLONGBENCH_DOC_V2 and sample.answerable is False:
        golds += re.split(r"\s+or\s+", str(sample.extra.get("gold", "")))[1:]
    return golds


def gold_variants(sample: Sample) -> list[list[str]]:
    """Return MADQA's right answers, each as the list of its items; without native ones, those of
    the sample.
    """
    gold = sample.extra.get("gold")
    native = []
    for items in gold if isinstance(gold, list) else ():
        if isinstance(items, list) and (texts := [text for text in items if isinstance(text, str)]):
            native.append(texts)
    if native or not sample.answers:
        return native
    if sample.lists_answers:
        return [list(sample.answers)]
    return [[answer] for answer in sample.answers]


def role_prompt(role: ScoringRole) -> PromptTemplate:
    """Load the prompt of a judge or an extractor."""
    spec = judges.EXTRACTOR_PROMPT if isinstance(role, Extractor) else judges.JUDGE_PROMPT
    return load_prompt(role.value, spec)


def messages(
    role: ScoringRole, question: str, references: Sequence[str], answer: str
) -> list[dict[str, str]]:
    """Return the request to a judge, or to an extractor, who never sees the references.

    Tags and labels of replies are neutralized where the texts contain them, so that nothing quoted
    can be taken for a reply.
    """
    prompt = role_prompt(role)
    if isinstance(role, Extractor):
        texts: dict[str, Any] = {"question": question, "answer": answer}
    else:
        texts = {"question": question, "references": list(references), "prediction": answer}
    values = neutralized_values({name: _without_labels(value) for name, value in texts.items()})
    parts = [part for part in ("system", "user", "assistant") if part in prompt]
    return [{"role": part, "content": prompt.render(part, **values)} for part in parts]


def parsed_reply(role: ScoringRole, reply: str | None, judge: PaperJudge | None = None) -> Any:
    """Parse a reply as the benchmark's parser does; True and False as the system's paper does.

    Returns:
        The extracted answer, a grade, True or False, or the name of a label; `None` if there is no
        reply, or it cannot be parsed.
    """
    if reply is None:
        return None
    if role is AnswerJudge.TRUE_FALSE:
        return judges.parse_bool_judge(reply, judge)
    return _PARSERS[role](reply)


def _concise(reply: str) -> Any:
    found = longdocurl_parse(reply)
    return None if isinstance(found, str) and found == FAILED else found


_PARSERS: Mapping[ScoringRole, Callable[[str], Any]] = {
    Extractor.MMLONGBENCH_DOC: extracted_answer,
    Extractor.LONGDOCURL: _concise,
    AnswerJudge.VIDOSEEK: judges.parse_score_judge,
    AnswerJudge.ALDEN: judges.parse_label_judge,
    AnswerJudge.MMLONGBENCH_DOC_V2: judges.parse_match_judge,
    AnswerJudge.MADQA: judges.parse_grade_judge,
}
RULED: Mapping[AnswerJudge, tuple[str, str]] = {
    AnswerJudge.VIDOSEEK: ("1", "5"),
    AnswerJudge.TRUE_FALSE: ("<judge>False</judge>", "<judge>True</judge>"),
    AnswerJudge.ALDEN: (
        f"<label>{AldenVerdict.INCORRECT}</label>",
        f"<label>{AldenVerdict.CORRECT}</label>",
    ),
    AnswerJudge.MADQA: ('{"judgment": "incorrect"}', '{"judgment": "correct"}'),
}
"""The embedded rule judge's verdicts, wrong and right, in the form of a judge's reply (`ruled`)."""


def extracted_form(role: Extractor, question: str, answer: str, extracted: str | None) -> str:
    """Return an extractor's reply in its own form, without a model.

    It contains the system's own short answer; if there is none, rules shorten the answer.
    """
    # imported here because it is slow, and judges do not need it
    from docagent_rl.envs.rule_roles import extract_answer

    short = extracted
    if short is None:
        short = extracted_answer(extract_answer(question, answer))
    if role is Extractor.MMLONGBENCH_DOC:
        text = unlabelled(short or "")
        items = [item.strip() for item in re.split(r"[;\n]", text) if item.strip()]
        # the prompts ask for semicolons between several items
        if len(items) > 1:
            return f"Extracted answer: {items}\nAnswer format: List"
        return f"Extracted answer: {text}\nAnswer format: String"
    text = _OWN_TAGS.sub(r"[\1\2]", short or "")
    # numbers and lists stay unchanged; other texts are quoted if they would be parsed as a literal
    is_number_or_list = re.fullmatch(r"[-+]?\d+(?:\.\d+)?|\[.*\]", text, re.S)
    begins_like_literal = re.match(r"[-+\d('\"{]", text)
    if begins_like_literal and not is_number_or_list:
        text = json.dumps(text, ensure_ascii=False)
    return f"<concise_answer>{text}</concise_answer><answer_format>String</answer_format>"


async def _asked(
    model: RemoteModel, role: ScoringRole, judged_answer: JudgedAnswer, answer: str
) -> JudgeReply:
    """Ask a model. If no reply can be parsed after all attempts, the judge has failed.

    A reply that was cut off is parsed as far as it goes, as the benchmarks do: it may already
    contain the grade.
    """
    sample = judged_answer.sample
    name = model.model
    sent = messages(role, sample.question, references_for(role, sample), answer)

    def accept(text: str) -> None:
        if parsed_reply(role, reply_text(text), judged_answer.judge) is None:
            raise ReplyError(f"the reply does not have the form of {role.value}")

    try:
        try:
            reply = await model.ask(sent, accept)
        except InfrastructureError as error:
            if not isinstance(error.__cause__, CutOffError):
                raise
            reply = await model.ask(sent, accept, partial=True)
    except InfrastructureError as error:
        if isinstance(error.__cause__, ReplyError):
            return JudgeReply(None, name, failed=True)
        raise
    return JudgeReply(reply_text(reply.text), name)


def _without_labels(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_labels(item) for item in value]
    return _OWN_KEYS.sub(r"(\1)", _OWN_TAGS.sub(r"[\1\2]", unlabelled(value)))
