"""Whether an answer declines, by the rules of the embedded judge."""

from __future__ import annotations

from collections.abc import Iterable

from docagent_rl.rewards.rule.claims import declines
from docagent_rl.rewards.rule.question import read_question
from docagent_rl.rewards.rule_judge import MAX_CHARS, Answer


def refuses(question: str, answer: str | None, golds: Iterable[str] = ()) -> bool:
    """Whether an answer says that the question cannot be answered, and nothing else.

    Args:
        question: as it was asked.
        answer: of the session.
        golds: right answers; one of them, such as "None" or "N/A" from a form, declines nothing.
    """
    if answer is None or not answer.strip() or len(answer) > MAX_CHARS:
        return False
    if _plain(answer) in map(_plain, golds):
        return False
    return declines(Answer.read(answer).folded, read_question(question))


def _plain(text: str) -> str:
    return " ".join(text.casefold().split()).rstrip(" .!")
