"""Generalised accuracy: MMLongBench-Doc (arXiv 2407.01523, `eval/eval_score.py`) and LongDocURL
(`utils/utils_score_v3.py`, `utils/calculate_metrics.py`).

An extractor shortens the answer first. LongDocURL's scorer resembles MMLongBench-Doc's, but removes
units and commas, and scores lists item by item.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

from docagent_rl.lab.eval.metrics.judges import first_tag
from docagent_rl.rewards.literals import safe_literal
from docagent_rl.rewards.mmlongbench import (
    AnswerFormat,
    answer_rightness,
    is_exact,
    is_number,
    mmlongbench_anls,
    number_score,
    text_score,
    unwrapped,
)

NOT_EXTRACTED = "Failed to extract"
FAILED = "Fail to extract"
"""Predictions of MMLongBench-Doc and of LongDocURL when an extractor's reply cannot be parsed; they
score 0.
"""
QUESTIONS = 2325
"""Number of LongDocURL's questions."""

# the order matters: a text that ends with `m` loses it before longer units are tried
_UNITS = (
    "kg", "mm", "m", "meters", "acres", "minutes", "mile", "miles", "million", "thousand",
    "billion",
)  # fmt: skip
_SOURCES = frozenset({"Text", "Layout", "Figure", "Table"})
_LOCATED = {
    "topic2title": "Cross_Title",
    "summary2title": "Para_Title",
    "summary2tab": "Cross_Table",
    "extract_fig2tab": "Figure_Table",
}
"""Table lines of locating questions, by native question type."""


def mmlongbench_score(gold: str, pred: str | None, answer_format: str) -> float:
    """Return MMLongBench-Doc's score of an extracted answer, in `[0, 1]`; 0 where the official
    scorer crashes.

    A list is passed as a Python literal, a missing answer as `None` or `NOT_EXTRACTED`. Formats of
    gold answers other than `Int`, `Float`, `Str` and `None` are treated as a list.
    """
    if pred is None or pred == NOT_EXTRACTED:
        return 0.0
    known = answer_format in set(AnswerFormat)
    return answer_rightness(
        str(gold), str(pred), AnswerFormat(answer_format) if known else AnswerFormat.LIST
    )


def mmlongbench_lines(
    pages: int, sources: Sequence[str], doc_type: str | None, *, answerable: bool
) -> list[str]:
    """Return the lines of MMLongBench-Doc's table in which a question counts, sorted.

    They are `single_page` (exactly one native evidence page, even outside of the document or for an
    unanswerable question), `cross_page` (answerable, with any other number of pages, including
    none), `unanswerable`, `source/<label>` and `type/<label>`.
    """
    lines = {f"source/{source}" for source in sources} | (
        {f"type/{doc_type}"} if doc_type else set()
    )
    if pages == 1:
        lines.add("single_page")
    elif answerable:
        lines.add("cross_page")
    return sorted(lines if answerable else {*lines, "unanswerable"})


def longdocurl_parse(extractor_text: str) -> Any:
    """Return the prediction in an extractor's reply, as the headline script reads it back from
    JSON.

    It is the content of the first `<concise_answer>` tag, evaluated if it is a Python literal:
    tuples and sets become lists, and what JSON cannot represent stays text. It is `FAILED` if that
    tag or the one for the format is missing.
    """
    value = longdocurl_inline(extractor_text)
    try:
        return json.loads(json.dumps(value))
    # nested sets, tuples as keys, numbers of thousands of digits
    except (TypeError, ValueError):
        return _concise(extractor_text)


def longdocurl_inline(extractor_text: str) -> Any:
    """Return the prediction before it is written to JSON: tuples stay tuples, a set is a list."""
    text = _concise(extractor_text)
    if text is None:
        return FAILED
    try:
        value = safe_literal(text, logic=True)
    except ValueError:
        return text
    return list(value) if isinstance(value, set) else value


def longdocurl_score(gold: Any, pred: Any, answer_format: str) -> float:
    """Return LongDocURL's score of a `longdocurl_parse`, in `[0, 1]`; 0 where the official scorer
    crashes.

    The gold answer has its JSON type; formats other than `Integer`, `Float`, `String` and `None`
    are treated as a list.
    """
    if isinstance(pred, str) and pred == FAILED:
        return 0.0
    match answer_format:
        case "Integer":
            return _integer_score(longdocurl_clean(gold), longdocurl_clean(pred))
        case "Float":
            # percent signs are stripped once more, so that `4 % %` is 4
            return number_score(
                *(longdocurl_clean(value).rstrip("%").strip() for value in (gold, pred))
            )
        case "String" | "None":
            return text_score(longdocurl_clean(gold), longdocurl_clean(pred))
        case _:
            return _list_score(_items(gold), _items(pred))


def longdocurl_lines(
    task_tag: str | None, pages: int, sources: Sequence[str], question_type: str | None
) -> list[str]:
    """Return the lines of LongDocURL's fine-grained table in which a question counts, sorted.

    They are `task/<tag>`, `source/<label>`, `single_page`, `multi_page` and `cross_element`
    (several sources); for understanding and reasoning also `<tag>, <pages>, <source>`, and for
    locating `Locating, <kind>`, where the kind follows from the native question type.
    """
    known = [source for source in sources if source in _SOURCES]
    lines = [f"task/{task_tag}"] if task_tag else []
    lines += [f"source/{source}" for source in known]
    length = "single_page" if pages == 1 else "multi_page"
    if pages:
        lines.append(length)
    if len(sources) > 1:
        lines.append("cross_element")
    if task_tag in ("Understanding", "Reasoning") and pages:
        lines += [f"{task_tag}, {length}, {source}" for source in known]
    if task_tag == "Locating" and question_type in _LOCATED:
        lines.append(f"Locating, {_LOCATED[question_type]}")
    return sorted(set(lines))


def longdocurl_clean(value: object) -> str:
    """Clean an answer like the official script: case, commas, units, parentheses, outer quotes,
    first `$` and `£`, last `%`.

    If a text ends with a unit, all letters of that unit are stripped from its end: `Stockholm`
    becomes `stockhol`.
    """
    text = str(value).lower().strip().replace(",", "")
    for unit in _UNITS:
        if text.endswith(unit):
            text = text.rstrip(unit).strip()
    return unwrapped(text).lstrip("£").strip().rstrip("%").strip()


def _concise(extractor_text: str) -> str | None:
    has_format = first_tag(extractor_text, "answer_format") is not None
    return first_tag(extractor_text, "concise_answer") if has_format else None


def _integer_score(gold: str, pred: str) -> float:
    try:
        given = int(pred)
    except ValueError:
        # a gold answer that is not a number stays text, and equals a prediction only if it is empty
        return float(not gold)
    try:
        return float(int(gold) == given)
    except ValueError:
        return 0.0


def _items(value: Any) -> list[Any]:
    if isinstance(value, str) and value.startswith("["):
        try:
            value = safe_literal(value, logic=True)
        except ValueError:
            return [value]
    return value if isinstance(value, list) else [value]


def _list_score(gold: Sequence[Any], pred: Sequence[Any]) -> float:
    wanted = _texts(gold)
    given = _texts(pred)
    if not wanted or not given:
        return 0.0
    if is_number(wanted[0]) or is_exact(wanted[0]):
        return float("-".join(wanted) == "-".join(given))
    best = [max(mmlongbench_anls(a, b) for b in given) for a in wanted]
    return math.fsum(best) / len(wanted) * min(1.0, len(wanted) / len(given)) ** 0.5


def _texts(items: Sequence[Any]) -> list[str]:
    """Return the cleaned items; none where the official scorer crashes, on dictionaries among other
    items.
    """
    if items and isinstance(items[0], dict):
        if not all(isinstance(item, dict) for item in items):
            return []
        items = ["-".join(map(str, item.values())) for item in items]
    return [longdocurl_clean(item) for item in items]
