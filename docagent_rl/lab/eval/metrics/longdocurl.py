"""LongDocURL (`utils/utils_score_v3.py`, `utils/calculate_metrics.py`): generalised accuracy.

An extractor shortens the answer first (prompt `longdocurl_extractor`). Like MMLongBench-Doc's scorer, with
units and commas cleaned away, and lists scored item by item.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from docagent_rl.lab.eval.metrics.judges import first_tag
from docagent_rl.rewards.literals import safe_literal
from docagent_rl.rewards.mmlongbench import anls, is_exact, is_number, number_score, text_score, unwrapped

FAILED = "Fail to extract"
"""The prediction when an extractor's reply cannot be read; its score is 0."""

QUESTIONS = 2325
"""Questions of the benchmark."""
OFFICIAL_COUNTS = {
    "task/Understanding": 1243,
    "task/Reasoning": 387,
    "task/Locating": 695,
    "source/Text": 994,
    "source/Layout": 779,
    "source/Figure": 556,
    "source/Table": 871,
    "single_page": 1093,
    "multi_page": 1230,
    "cross_element": 862,
    "Understanding, single_page, Text": 259,
    "Understanding, single_page, Layout": 91,
    "Understanding, single_page, Figure": 94,
    "Understanding, single_page, Table": 263,
    "Understanding, multi_page, Text": 443,
    "Understanding, multi_page, Layout": 172,
    "Understanding, multi_page, Figure": 174,
    "Understanding, multi_page, Table": 115,
    "Reasoning, single_page, Text": 40,
    "Reasoning, single_page, Layout": 12,
    "Reasoning, single_page, Figure": 28,
    "Reasoning, single_page, Table": 98,
    "Reasoning, multi_page, Text": 115,
    "Reasoning, multi_page, Layout": 40,
    "Reasoning, multi_page, Figure": 85,
    "Reasoning, multi_page, Table": 69,
    "Locating, Cross_Title": 201,
    "Locating, Para_Title": 137,
    "Locating, Cross_Table": 126,
    "Locating, Figure_Table": 231,
}
"""Counts that the fine-grained script divides by (`evaluation_results/scores_sample_fine_grained.json`)."""

# in this order: a text that ends with `m` loses it before longer units are looked for
_UNITS = (
    "kg", "mm", "m", "meters", "acres", "minutes", "mile", "miles", "million", "thousand", "billion",
)  # fmt: skip
_SOURCES = frozenset({"Text", "Layout", "Figure", "Table"})
_LOCATED = {
    "topic2title": "Cross_Title",
    "summary2title": "Para_Title",
    "summary2tab": "Cross_Table",
    "extract_fig2tab": "Figure_Table",
}
"""Lines of locating questions, by native question type."""


def longdocurl_parse(extractor_text: str) -> Any:
    """Return the prediction in an extractor's reply, as the headline script reads it back from JSON.

    The text of the first `<concise_answer>` tag as a Python literal where it is one; tuples and sets are
    lists. What JSON cannot hold stays text.

    Returns:
        `FAILED` when there is no such tag, or none for the format.
    """
    value = longdocurl_inline(extractor_text)
    try:
        return json.loads(json.dumps(value))
    # sets inside of something, tuples as keys, numbers of thousands of digits
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
    """Score an extracted answer.

    Args:
        gold: the benchmark's answer, with its JSON type.
        pred: from `longdocurl_parse`.
        answer_format: of the gold answer; what is not `Integer`, `Float`, `String` or `None` is a list.

    Returns:
        A value in `[0, 1]`; 0 for whatever would stop the official scorer.
    """
    if isinstance(pred, str) and pred == FAILED:
        return 0.0
    match answer_format:
        case "Integer":
            return _integer_score(longdocurl_clean(gold), longdocurl_clean(pred))
        case "Float":
            return number_score(_number_text(gold), _number_text(pred))
        case "String" | "None":
            return text_score(longdocurl_clean(gold), longdocurl_clean(pred))
        case _:
            return _list_score(_items(gold), _items(pred))


def longdocurl_lines(
    task_tag: str | None, pages: int, sources: Sequence[str], question_type: str | None
) -> list[str]:
    """Return the lines of the fine-grained table that a question counts in, in alphabetical order.

    Args:
        task_tag: `Understanding`, `Reasoning` or `Locating`.
        pages: number of native evidence pages.
        sources: native labels of the evidence.
        question_type: native label; parts locating questions.

    Returns:
        `task/<tag>`, `source/<label>`, `single_page`, `multi_page` and `cross_element` (several sources);
        of understanding and reasoning `<tag>, <pages>, <source>`, of locating `Locating, <kind>`.
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


def longdocurl_breakdown(rows: Iterable[tuple[Iterable[str], float]]) -> dict[str, float]:
    """Return the sum of scores by line, divided by the official count, so that missing questions count 0.

    Args:
        rows: of each question its `longdocurl_lines` and its score.
    """
    scores: dict[str, list[float]] = {}
    for lines, score in rows:
        for line in lines:
            scores.setdefault(line, []).append(score)
    return {line: math.fsum(scores.get(line, ())) / count for line, count in sorted(OFFICIAL_COUNTS.items())}


def longdocurl_clean(value: object) -> str:
    """Clean as the script does: case, commas, units, parentheses, outer quotes, first `$` and `£`, last `%`.

    Where a text ends with a unit, all letters of the unit go from its end: `Stockholm` becomes `stockhol`.
    """
    text = str(value).lower().strip().replace(",", "")
    for unit in _UNITS:
        if text.endswith(unit):
            text = text.rstrip(unit).strip()
    return unwrapped(text).lstrip("£").strip().rstrip("%").strip()


def _number_text(value: object) -> str:
    """Return what is read as a number: percent signs go once more, so that `4 % %` is 4."""
    return longdocurl_clean(value).rstrip("%").strip()


def _concise(extractor_text: str) -> str | None:
    has_format = first_tag(extractor_text, "answer_format") is not None
    return first_tag(extractor_text, "concise_answer") if has_format else None


def _integer_score(gold: str, pred: str) -> float:
    try:
        given = int(pred)
    except ValueError:
        # a gold answer that is no number stays text, which only equals a prediction that is none
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
    wanted, given = _texts(gold), _texts(pred)
    if not wanted or not given:
        return 0.0
    if is_number(wanted[0]) or is_exact(wanted[0]):
        return float("-".join(wanted) == "-".join(given))
    best = [max(anls(a, b) for b in given) for a in wanted]
    return math.fsum(best) / len(wanted) * min(1.0, len(wanted) / len(given)) ** 0.5


def _texts(items: Sequence[Any]) -> list[str]:
    """Return cleaned items; none where the official scorer fails, at dictionaries among other items."""
    if items and isinstance(items[0], dict):
        if not all(isinstance(item, dict) for item in items):
            return []
        items = ["-".join(map(str, item.values())) for item in items]
    return [longdocurl_clean(item) for item in items]
