"""Rewards for answers with the signature of EasyR1: a list of answers in, a list of scores out.

    worker.reward.reward_function=/path/to/docagent_rl/rewards/easyr1.py:rule

EasyR1 loads the file by its path and calls the function on a batch of dictionaries with `response`,
`response_length` and `ground_truth`. Its own package is called `verl`, and needs other versions than ours:
here neither verl nor torch nor transformers is imported. `python -m docagent_rl.rewards.easyr1` prints the
path.

The ground truth is what `docagent-rl data export --format easyr1` writes in the column `reference` (set
`data.answer_key=reference`), or a plain text, the one right answer.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.rewards.judge import Judge
from docagent_rl.rewards.rule_judge import AnlsJudge, ExactMatchJudge, RecallJudge, RuleJudge

REWARD_NAME, REWARD_TYPE = "docagent-rl", "batch"
"""Read by EasyR1; releases up to 0.3.2 read `worker.reward.reward_type=batch` instead."""

_ANSWER = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)
_THOUGHT = re.compile(r"^.*</think>", re.DOTALL)

Scores = list[dict[str, float]]


def rule(reward_inputs: Sequence[Mapping[str, Any]], format_weight: float = 0.0) -> Scores:
    """Score 1 where an answer says the reference and nothing beside it (`RuleJudge`), else 0."""
    return _scores(RuleJudge(), reward_inputs, format_weight)


def exact(reward_inputs: Sequence[Mapping[str, Any]], format_weight: float = 0.0) -> Scores:
    """Score 1 where an answer is the reference after SQuAD's normalisation."""
    return _scores(ExactMatchJudge(), reward_inputs, format_weight)


def anls(
    reward_inputs: Sequence[Mapping[str, Any]], format_weight: float = 0.0, threshold: float = 0.5
) -> Scores:
    """Score by edit distance (MP-DocVQA), 0 below the threshold."""
    return _scores(AnlsJudge(threshold), reward_inputs, format_weight)


def recall(reward_inputs: Sequence[Mapping[str, Any]], format_weight: float = 0.0) -> Scores:
    """Score the share of the reference's tokens that an answer holds."""
    return _scores(RecallJudge(), reward_inputs, format_weight)


def final_answer(response: str) -> str | None:
    """Return the text between the tags `answer` when they are there once, after the thoughts; else None."""
    found = _ANSWER.findall(_THOUGHT.sub("", response))
    return found[0].strip() if len(found) == 1 else None


def reference_text(question: str, references: Sequence[str]) -> str:
    """Return the text of the column `reference`: the question, which judges read, and its right answers."""
    return json.dumps({"question": question, "references": list(references)}, ensure_ascii=False)


def _scores(judge: Judge, inputs: Sequence[Mapping[str, Any]], format_weight: float) -> Scores:
    """Scores in the order of the inputs; without the tags, the whole response is the answer.

    Raises:
        UserError: the weight is no share, or a ground truth is no text.
    """
    if not 0 <= format_weight <= 1:
        raise UserError(f"format_weight {format_weight}: give a number from 0 to 1")
    return asyncio.run(_judged(judge, inputs, format_weight))


async def _judged(judge: Judge, inputs: Sequence[Mapping[str, Any]], format_weight: float) -> Scores:
    found = []
    for each in inputs:
        question, references = _read(each["ground_truth"])
        answer = final_answer(each["response"])
        said = _THOUGHT.sub("", each["response"]).strip() if answer is None else answer
        accuracy = await judge.judge(question, references, said)
        form = float(answer is not None)
        overall = (1 - format_weight) * accuracy + format_weight * form
        found.append({"overall": overall, "format": form, "accuracy": accuracy})
    return found


def _read(ground_truth: Any) -> tuple[str, list[str]]:
    if not isinstance(ground_truth, str):
        raise UserError(f"a ground truth is {type(ground_truth).__name__}: set data.answer_key=reference")
    try:
        found = json.loads(ground_truth)
    except json.JSONDecodeError:
        return "", [ground_truth]
    if isinstance(found, dict) and found.keys() == {"question", "references"}:
        return found["question"], found["references"]
    return "", [ground_truth]


if __name__ == "__main__":
    print(__file__)
