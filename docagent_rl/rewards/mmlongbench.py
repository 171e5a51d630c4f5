"""The scorer of MMLongBench-Doc (arXiv 2407.01523, `eval/eval_score.py`), quirks included."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from enum import StrEnum

from docagent_rl.rewards.literals import safe_literal
from docagent_rl.rewards.text import edit_distance

FAIL_TO_ANSWER = "Fail to answer"
"""An extractor's reply if the answer only says that the material could not be read."""

_ANSWER = "Extracted answer:"
_FORMAT = "Answer format:"
_LABEL = re.compile(rf"({_ANSWER[:-1]}|{_FORMAT[:-1]})\s*:", re.IGNORECASE)
_EXACT = re.compile(
    r"\d+|\d+[-\s]\d+|\d{4}[-\s]\d{2}[-\s]\d{2}|\d{4}[-\s]\d{2}"
    r"|[a-zA-Z0-9._%+-]+@[a-zA-Z0-9.-]+\.[a-zA-Z]{2,}"
)


class AnswerFormat(StrEnum):
    """The format of a gold answer, which decides how it is compared."""

    INT = "Int"
    FLOAT = "Float"
    STR = "Str"
    LIST = "List"
    NONE = "None"

    @classmethod
    def of(cls, name: str) -> AnswerFormat:
        """Return the format for a name used by MMLongBench-Doc, LongDocURL or DUDE.

        Any other name is treated as `STR`.
        """
        return _FORMATS.get(name.strip().casefold(), cls.STR)


_FORMATS = {
    **{kind.value.casefold(): kind for kind in AnswerFormat},
    "integer": AnswerFormat.INT,
    "string": AnswerFormat.STR,
    "list/extractive": AnswerFormat.LIST,
    "list/abstractive": AnswerFormat.LIST,
    "not-answerable": AnswerFormat.NONE,
}


def extracted_answer(reply: str) -> str | None:
    """Return the short answer in an extractor's reply; `None` if the reply is malformed.

    The expected form is a line `Extracted answer: ...` followed by `Answer format: ...`,
    case-sensitive. The format line is ignored: scores depend on the gold format.
    """
    _, label, found = reply.partition(_FORMAT)[0].partition(_ANSWER)
    return found.partition(_ANSWER)[0].strip() if label else None


def unlabelled(text: str) -> str:
    """Neutralize the labels of an extractor's reply in its input, since it might quote them."""
    return _LABEL.sub(r"\1 -", text)


def answer_rightness(
    gold: str | Sequence[str], prediction: str, answer_format: AnswerFormat
) -> float:
    """Score an extracted answer against the gold answer.

    Args:
        gold: the right answer; for a list, its items or the list as a Python literal.
        prediction: the extracted answer.
        answer_format: format of the gold answer.

    Returns:
        A value in `[0, 1]`; 0 for input on which the official scorer would crash.
    """
    match answer_format:
        case AnswerFormat.LIST:
            return _list_score(gold, prediction)
        case AnswerFormat.INT:
            return _int_score(_text(gold), prediction)
        case AnswerFormat.FLOAT:
            return number_score(clean_answer(_text(gold)), clean_answer(prediction))
        case AnswerFormat.STR | AnswerFormat.NONE:
            return text_score(clean_answer(_text(gold)), clean_answer(prediction))


def clean_answer(text: object) -> str:
    """Clean a text as the official scorer does.

    The text is lower-cased; parentheses, one pair of outer quotes, leading `$` and trailing `%` are
    removed. The official code also strips units such as miles but discards the result, so we do not
    strip them.
    """
    return unwrapped(str(text).lower().strip()).rstrip("%").strip()


def unwrapped(text: str) -> str:
    """Return text without parenthesised groups, one pair of outer quotes and leading `$`."""
    plain = _without_parentheses(text)
    plain = plain[1:] if plain[:1] in ("'", '"') else plain
    plain = plain[:-1] if plain[-1:] in ("'", '"') else plain
    return plain.strip().lstrip("$").strip()


def mmlongbench_anls(gold: str, prediction: str) -> float:
    """Return `1 - edits / longer length`, or 0 unless that is above 0.5.

    Lengths are those of the upper-cased texts.
    """
    longest = max(len(gold.upper()), len(prediction.upper()))
    if not longest:
        return 1.0
    similarity = 1.0 - edit_distance(gold, prediction) / longest
    return similarity if similarity > 0.5 else 0.0


def is_exact(gold: str) -> bool:
    """Return whether a cleaned gold answer is compared by equality.

    This holds for addresses, files, pages, numbers and dates.
    """
    return (
        "https://" in gold
        or gold.endswith((".py", "ipynb"))
        or gold.startswith("page")
        or "a.m." in gold
        or "p.m." in gold
        or _EXACT.fullmatch(gold) is not None
    )


def text_score(gold: str, prediction: str) -> float:
    """Score two cleaned texts by equality if `is_exact(gold)`, else by `mmlongbench_anls`."""
    return float(gold == prediction) if is_exact(gold) else mmlongbench_anls(gold, prediction)


def number_score(gold: str, prediction: str) -> float:
    """Return 1.0 if two cleaned texts are the same number, else 0.0.

    Numbers may differ by 1 % or by rounding, and either may be a percentage.
    """
    try:
        wanted = float(gold)
        given = float(prediction)
    except ValueError:
        return 0.0
    return float(
        any(_close(given, candidate) for candidate in (wanted / 100, wanted, wanted * 100))
    )


def is_number(text: str) -> bool:
    """Return whether `float` accepts a text; it accepts `nan` and `inf`."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def _int_score(gold: str, prediction: str) -> float:
    try:
        return float(int(gold) == int(float(prediction)))
    except (ValueError, OverflowError):
        return float(not gold)


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
        wanted = _items(gold)
        given = _items(prediction)
    except ValueError:
        return 0.0
    if not wanted or len(wanted) != len(given):
        return 0.0
    if is_number(wanted[0]) or is_exact(wanted[0]):
        return float("-".join(wanted) == "-".join(given))
    return min(mmlongbench_anls(a, b) for a, b in zip(wanted, given, strict=True))


def _items(value: str | Sequence[str]) -> list[str]:
    """Return cleaned items, sorted as strings.

    Raises:
        ValueError: a text begins like a list but is not one.
    """
    if isinstance(value, str):
        parsed = safe_literal(value, logic=True) if value.startswith("[") else value
        # `[1], [2]` is a tuple, which the official scorer treats as a single item
        value = parsed if isinstance(parsed, list) else [parsed]
    return sorted(clean_answer(item) for item in value)


def _text(gold: str | Sequence[str]) -> str:
    return gold if isinstance(gold, str) else "; ".join(gold)


def _without_parentheses(text: str) -> str:
    pieces = []
    at = 0
    while (start := text.find("(", at)) >= 0 and (end := text.find(")", start)) >= 0:
        pieces.append(text[at:start].rstrip())
        at = end + 1
    return "".join((*pieces, text[at:])).strip()
