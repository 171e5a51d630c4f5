"""The scorer of MMLongBench-Doc (arXiv 2407.01523, `eval/eval_score.py`), quirks included."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.rewards.literals import safe_literal
from docagent_rl.rewards.text import edit_distance

NOT_ANSWERABLE = "Not answerable"
"""Gold and prediction of a question that its document does not answer."""
FAIL_TO_ANSWER = "Fail to answer"
"""What an extractor writes when the answer only says that the material could not be read."""

_ANSWER, _FORMAT = "Extracted answer:", "Answer format:"
_MAX_DIGITS = 400
_EXACT = re.compile(
    r"\d+|\d+[-\s]\d+|\d{4}[-\s]\d{2}[-\s]\d{2}|\d{4}[-\s]\d{2}"
    r"|[a-z0-9._%+-]+@[a-z0-9.-]+\.[a-z]{2,}",
    re.IGNORECASE,
)


class AnswerFormat(StrEnum):
    """How a gold answer is compared."""

    INT = "Int"
    FLOAT = "Float"
    STR = "Str"
    LIST = "List"
    NONE = "None"

    @classmethod
    def of(cls, name: str) -> AnswerFormat:
        """The format of that name, in the spelling of MMLongBench-Doc or of LongDocURL.

        Names of other datasets mean text.
        """
        return _FORMATS.get(name.strip().casefold(), cls.STR)


_FORMATS = {
    **{kind.value.casefold(): kind for kind in AnswerFormat},
    "integer": AnswerFormat.INT,
    "string": AnswerFormat.STR,
}


@dataclass(frozen=True, slots=True)
class Scored:
    """A scored question.

    Args:
        gold: the right answer; `NOT_ANSWERABLE` exactly when there is none.
        prediction: the extracted answer.
        score: in `[0, 1]`.
    """

    gold: str
    prediction: str
    score: float


def extracted_answer(reply: str) -> str | None:
    """The short answer in an extractor's reply; `None` when it does not hold to the form.

    The form is a line `Extracted answer: ...` and then `Answer format: ...`, case-sensitive. The format line
    is not used: scores go by the gold format.
    """
    before = reply.split(_FORMAT, 1)[0]
    pieces = before.split(_ANSWER, 2)
    return pieces[1].strip() if len(pieces) > 1 else None


def score(gold: str | Sequence[str], prediction: str, answer_format: AnswerFormat) -> float:
    """How right an extracted answer is.

    Args:
        gold: the right answer; for a list its items, or their Python literal.
        prediction: the extracted answer.
        answer_format: format of the gold answer.

    Returns:
        A value in `[0, 1]`; 0 for whatever would stop the official scorer.
    """
    match answer_format:
        case AnswerFormat.LIST:
            return _list_score(gold, prediction)
        case AnswerFormat.INT:
            return _int_score(_text(gold), prediction)
        case AnswerFormat.FLOAT:
            return _float_score(_text(gold), prediction)
        case AnswerFormat.STR | AnswerFormat.NONE:
            return _text_score(clean(_text(gold)), clean(prediction))


def accuracy_f1(results: Iterable[Scored]) -> tuple[float, float]:
    """Generalised accuracy and F1 over a benchmark.

    Accuracy is the mean score. With S the sum of the scores of answerable questions, recall is S over their
    number and precision is S over the number of all predictions that are not exactly `NOT_ANSWERABLE`.

    Returns:
        `(accuracy, F1)`, both in `[0, 1]`; 0 where a denominator is.
    """
    rows = list(results)
    if not rows:
        return 0.0, 0.0
    answerable = [row.score for row in rows if row.gold != NOT_ANSWERABLE]
    answered = sum(row.prediction != NOT_ANSWERABLE for row in rows)
    gained = math.fsum(answerable)
    recall = gained / len(answerable) if answerable else 0.0
    precision = gained / answered if answered else 0.0
    both = recall + precision
    return math.fsum(row.score for row in rows) / len(rows), 2 * recall * precision / both if both else 0.0


def clean(text: object) -> str:
    """The official cleaning: case, parentheses, one pair of outer quotes, leading `$`, trailing `%`.

    The official code also strips units such as miles, but throws the result away; so do we.
    """
    plain = _without_parentheses(str(text).lower().strip())
    plain = plain[1:] if plain[:1] in ("'", '"') else plain
    plain = plain[:-1] if plain[-1:] in ("'", '"') else plain
    return plain.strip().lstrip("$").strip().rstrip("%").strip()


def anls(gold: str, prediction: str) -> float:
    """`1 - edits / longer length`, 0 unless above 0.5; lengths are those of the upper-cased texts."""
    longest = max(len(gold.upper()), len(prediction.upper()))
    if not longest:
        return 1.0
    # at least as many edits as the lengths differ by: long predictions need no table
    if 1.0 - abs(len(gold) - len(prediction)) / longest <= 0.5:
        return 0.0
    similarity = 1.0 - edit_distance(gold, prediction) / longest
    return similarity if similarity > 0.5 else 0.0


def is_exact(gold: str) -> bool:
    """Whether a cleaned gold answer is compared by equality: addresses, file names, pages, numbers, dates."""
    return (
        "https://" in gold
        or gold.endswith((".py", "ipynb"))
        or gold.startswith("page")
        or "a.m." in gold
        or "p.m." in gold
        or _EXACT.fullmatch(gold) is not None
    )


def _text_score(gold: str, prediction: str) -> float:
    return float(gold == prediction) if is_exact(gold) else anls(gold, prediction)


def _int_score(gold: str, prediction: str) -> float:
    try:
        return float(_integer(gold) == int(_float(prediction)))
    except (ValueError, OverflowError):
        return 0.0


def _float_score(gold: str, prediction: str) -> float:
    try:
        wanted, given = _float(clean(gold)), _float(clean(prediction))
    except ValueError:
        return 0.0
    return float(any(_close(given, candidate) for candidate in (wanted / 100, wanted, wanted * 100)))


def _close(given: float, wanted: float) -> bool:
    if math.isclose(given, wanted, rel_tol=0.01):
        return True
    places = max(2, min(_decimals(given), _decimals(wanted)))
    return round(given, places) == round(wanted, places)


def _decimals(number: float) -> int:
    _, point, fraction = str(number).rpartition(".")
    return len(fraction) if point else 3


def _list_score(gold: str | Sequence[str], prediction: str) -> float:
    try:
        wanted, given = _items(gold), _items(prediction)
    except ValueError:
        return 0.0
    if not wanted or len(wanted) != len(given):
        return 0.0
    if _is_float(wanted[0]) or is_exact(wanted[0]):
        return float("-".join(wanted) == "-".join(given))
    return min(anls(a, b) for a, b in zip(wanted, given, strict=True))


def _items(value: str | Sequence[str]) -> list[str]:
    """Cleaned items, sorted as strings.

    Raises:
        ValueError: text that begins like a list and is none.
    """
    if isinstance(value, str):
        value = safe_literal(value) if value.startswith("[") else [value]
    if isinstance(value, str) or not isinstance(value, Sequence):
        value = [str(value)]
    return sorted(clean(item) for item in value)


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise ValueError("too long for a number")
    return int(text)


def _float(text: str) -> float:
    if len(text) > _MAX_DIGITS:
        raise ValueError("too long for a number")
    return float(text)


def _is_float(text: str) -> bool:
    try:
        _float(text)
    except ValueError:
        return False
    return True


def _text(gold: str | Sequence[str]) -> str:
    return gold if isinstance(gold, str) else "; ".join(gold)


def _without_parentheses(text: str) -> str:
    pieces, at = [], 0
    while (start := text.find("(", at)) >= 0 and (end := text.find(")", start)) >= 0:
        pieces.append(text[at:start].rstrip())
        at = end + 1
    return "".join((*pieces, text[at:])).strip()
