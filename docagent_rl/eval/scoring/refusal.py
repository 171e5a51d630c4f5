"""Whether an answer declines, by the rules of the embedded judge."""

from __future__ import annotations

from docagent_rl.rewards.rule.question import read_question
from docagent_rl.rewards.rule.refusals import declines
from docagent_rl.rewards.rule_judge import MAX_CHARS, Answer


def refuses(question: str, answer: str | None) -> bool:
    """Whether an answer says that the question cannot be answered, and nothing else."""
    if answer is None or not answer.strip() or len(answer) > MAX_CHARS:
        return False
    return declines(Answer.read(answer).folded, read_question(question))
