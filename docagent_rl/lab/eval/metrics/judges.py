"""Judges and extractors of the benchmarks: their prompts, and parsing of their replies."""

import json
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from docagent_rl.base.prompts import PromptSpec
from docagent_rl.envs.system import PaperJudge

EXTRACTOR_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system", "assistant"}),
    variables=frozenset({"question", "answer"}),
)
"""Parts of an extractor's prompt. `assistant` is a final message in that role, as in
MMLongBench-Doc.
"""

JUDGE_PROMPT = PromptSpec(
    required=frozenset({"user"}),
    optional=frozenset({"system"}),
    variables=frozenset({"question", "references", "prediction"}),
)
"""Parts of a prompt for judging one answer."""

PASSING = 4
"""The lowest passing grade of ViDoSeek's judge, on a scale of 1 to 5."""


class Extractor(StrEnum):
    """Models that shorten an answer, by the name of their prompt."""

    MMLONGBENCH_DOC = "mmlongbench_doc_extractor"
    """Parsed by `rewards.mmlongbench.extracted_answer`; temperature 0, at most 256 tokens."""
    LONGDOCURL = "longdocurl_extractor"


class AnswerJudge(StrEnum):
    """Models that judge an answer, by the name of their prompt."""

    VIDOSEEK = "vidoseek_judge"
    TRUE_FALSE = "true_false_judge"
    """Parsed by `parse_bool_judge`, for VRAG-RL and UniDoc-RL; temperature 0, a reply fits into 16
    tokens.
    """
    ALDEN = "alden_judge"
    MMLONGBENCH_DOC_V2 = "mmlongbench_doc_v2_judge"
    MADQA = "madqa_judge"


class AldenVerdict(StrEnum):
    """Verdicts of ALDEN's judge."""

    CORRECT = "Correct"
    INCORRECT = "Incorrect"
    TIE = "Tie/Unclear"


class Match(StrEnum):
    """Verdicts of MMLongBench-Doc-V2's judge: whether the response matches the reference, and
    whether it declines to answer.
    """

    SAME = "same"
    DECLINED = "rightly declined"
    OTHER = "other"
    ABSTAINED = "wrongly declined"

    @property
    def equivalent(self) -> bool:
        """True if the response says the same as the reference."""
        return self in (Match.SAME, Match.DECLINED)

    @property
    def abstained(self) -> bool:
        """True if the response declines to answer."""
        return self in (Match.DECLINED, Match.ABSTAINED)


class Grade(StrEnum):
    """Verdicts of MADQA's judge."""

    CORRECT = "correct"
    PARTIAL = "partial"
    INCORRECT = "incorrect"


_MATCHES = {(match.equivalent, match.abstained): match for match in Match}
_LABELS = {label.lower(): label for label in AldenVerdict} | {
    "tie": AldenVerdict.TIE,
    "unclear": AldenVerdict.TIE,
}


def first_tag(text: str, name: str) -> str | None:
    """Return the text between the first `<name>` and the next `</name>`; `None` if there is no such
    pair.
    """
    _, opened, rest = text.partition(f"<{name}>")
    inside, closed, _ = rest.partition(f"</{name}>")
    return inside if opened and closed else None


def parse_bool_judge(text: str, judge: PaperJudge | None = None) -> bool | None:
    """Parse the verdict between the first pair of `<judge>` tags.

    Source: `verl/workers/reward_manager` of both releases. UniDoc-RL (`PaperJudge.TRUE_FALSE`)
    takes `true` in any case for yes, and everything else for no, including a reply without tags.
    VRAG-RL, and everyone else, takes `true` or `True` for yes, else `false` or `False` for no, and
    otherwise asks again (`None`).
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
    """Return whether VRAG-RL's judge is asked: only if the response contains a pair of search tags
    and one of answer tags.
    """
    return all(first_tag(response, name) is not None for name in ("search", "answer"))


def parse_score_judge(text: str) -> int | None:
    """Parse a grade (ViDoRAG, `llms/evaluator.py`): the first digit, so that `10` is 1; `None` if
    there is none.
    """
    found = re.search(r"\d", text)
    return int(found[0]) if found else None


def parse_label_judge(text: str) -> AldenVerdict | None:
    """Parse the label between the first pair of `<label>` tags; `None` if there is none.

    ALDEN's prompt is not published: the tags are those of our prompt `alden_judge`.
    """
    label = first_tag(text, "label")
    return None if label is None else _LABELS.get("".join(label.lower().split()).rstrip("."))


def parse_match_judge(text: str) -> Match | None:
    """Parse the booleans `equivalent` and `abstained` from the first JSON object; `None` if one is
    missing.

    The benchmark's judge is required to use that form (`eval/judge.py`).
    """
    found = _first_object(text)
    equivalent = found.get("equivalent")
    abstained = found.get("abstained")
    if not (isinstance(equivalent, bool) and isinstance(abstained, bool)):
        return None
    return _MATCHES[equivalent, abstained]


def parse_grade_judge(text: str) -> Grade | None:
    """Parse `judgment` from the first JSON object; `None` if it is not one of the three words.

    The benchmark's judge calls a function with that argument (`eval/metrics.py`).
    """
    found = _first_object(text).get("judgment")
    return Grade(found) if isinstance(found, str) and found in set(Grade) else None


def _first_object(text: str) -> Mapping[str, Any]:
    """Return the JSON object that begins at the first brace; an empty one if there is none."""
    begin = text.find("{")
    try:
        found, _ = json.JSONDecoder().raw_decode(text, max(begin, 0))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
