"""Judges and extractors of the benchmarks: prompts, and how replies are read."""

import re
from enum import StrEnum

from docagent_rl.base.prompts import PromptSpec
from docagent_rl.envs.system import PaperJudge

EXTRACTOR_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system", "assistant"}),
    variables=frozenset({"question", "answer"}),
)
"""Parts of an extractor's prompt. `assistant` is a last turn in that role, as MMLongBench-Doc has it."""

JUDGE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "references", "prediction"}),
)
"""Parts of the prompt of a judge of one answer."""

PASSING = 4
"""The least grade of ViDoSeek's judge that passes, of 1 to 5."""


class Extractor(StrEnum):
    """Models that shorten an answer, by the name of their prompt."""

    MMLONGBENCH_DOC = "mmlongbench_doc_extractor"
    """Read by `rewards.mmlongbench.extracted_answer`; temperature 0, at most 256 tokens."""
    LONGDOCURL = "longdocurl_extractor"


class AnswerJudge(StrEnum):
    """Models that judge an answer, by the name of their prompt."""

    VIDOSEEK = "vidoseek_judge"
    TRUE_FALSE = "true_false_judge"
    """Read by `parse_bool_judge`, for VRAG-RL and UniDoc-RL; temperature 0, a reply fits into 16 tokens."""
    ALDEN = "alden_judge"


class Label(StrEnum):
    """Verdicts of ALDEN's judge."""

    CORRECT = "Correct"
    INCORRECT = "Incorrect"
    TIE = "Tie/Unclear"


_LABELS = {label.lower(): label for label in Label} | {"tie": Label.TIE, "unclear": Label.TIE}


def first_tag(text: str, name: str) -> str | None:
    """Return what stands between the first `<name>` and the next `</name>`; `None` without such a pair."""
    _, opened, rest = text.partition(f"<{name}>")
    inside, closed, _ = rest.partition(f"</{name}>")
    return inside if opened and closed else None


def parse_bool_judge(text: str, judge: PaperJudge | None = None) -> bool | None:
    """Read the verdict between the first pair of `<judge>` tags (`verl/workers/reward_manager` of both).

    UniDoc-RL (`PaperJudge.TRUE_FALSE`) takes `true` in any case for yes, and all else for no, also a reply
    without tags; VRAG-RL, and whoever else, takes `true` or `True` in it for yes, else `false` or `False` for
    no, and asks again (`None`) otherwise.
    """
    verdict = first_tag(text, "judge")
    if judge is PaperJudge.TRUE_FALSE:
        return verdict is not None and "true" in verdict.lower()
    if verdict is None:
        return None
    if "true" in verdict or "True" in verdict:
        return True
    return False if "false" in verdict or "False" in verdict else None


def is_judged(response: str) -> bool:
    """Return whether VRAG-RL's judge is asked: the response has a pair of search and one of answer tags."""
    return all(first_tag(response, name) is not None for name in ("search", "answer"))


def parse_score_judge(text: str) -> int | None:
    """Read a grade (ViDoRAG, `llms/evaluator.py`): the first digit, so that `10` is 1; `None` without."""
    found = re.search(r"\d", text)
    return int(found[0]) if found else None


def parse_label_judge(text: str) -> Label | None:
    """Read the label between the first pair of `<label>` tags; `None` without one.

    ALDEN's prompt is not published: the tags are those of our `alden_judge`.
    """
    label = first_tag(text, "label")
    return None if label is None else _LABELS.get("".join(label.lower().split()).rstrip("."))
