"""LongDocURL (`utils/utils_score_v3.py`, `utils/calculate_metrics.py`): generalised accuracy.

An extractor shortens the answer first (prompt `longdocurl_extractor`). Like MMLongBench-Doc's scorer, with
units and commas cleaned away, and lists scored item by item.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.lab.eval.metrics.scored import Scored, accuracy_f1
from docagent_rl.lab.eval.metrics.tags import first_tag
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
"""What the fine-grained script divides by (`evaluation_results/scores_sample_fine_grained.json`)."""

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


@dataclass(frozen=True, slots=True)
class LongDocURLRow(Scored):
    """A scored question.

    Args:
        inline_score: of the prediction before it was written to JSON (`longdocurl_inline`), where tuples are
            one item; `None` when it is the same.
        task_tag: `Understanding`, `Reasoning` or `Locating`.
        evidence_pages: native pages.
        evidence_sources: native labels.
        question_type: native label; parts locating questions.
    """

    inline_score: float | None = None
    task_tag: str | None = None
    evidence_pages: tuple[int, ...] = ()
    evidence_sources: tuple[str, ...] = ()
    question_type: str | None = None


def longdocurl_parse(extractor_text: str) -> Any:
    """The prediction in an extractor's reply, as the headline script reads it back from JSON.

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
    """The prediction before it is written to JSON: tuples stay tuples, a set is a list."""
    text = _concise(extractor_text)
    if text is None:
        return FAILED
    try:
        value = safe_literal(text, logic=True)
    except ValueError:
        return text
    return list(value) if isinstance(value, set) else value


def longdocurl_score(gold: Any, pred: Any, answer_format: str) -> float:
    """How right an extracted answer is.

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


def longdocurl_accuracy(records: Iterable[Scored], total: int = QUESTIONS) -> dict[str, float]:
    """The numbers over the benchmark.

    Args:
        records: scored questions.
        total: questions that there should be; missing ones count 0 in the rectified accuracy.

    Returns:
        `acc`, the mean over the questions that are there; `rectified_acc`, the headline; `acc_inline` and
        `f1`, which the script of a run prints, from predictions before they are written to JSON.
    """
    rows = list(records)
    gained = math.fsum(row.score for row in rows)
    inline = [Scored(row.answer, row.pred, _inline_score(row)) for row in rows]
    acc_inline, f1 = accuracy_f1(inline)
    return {
        "acc": gained / len(rows) if rows else 0.0,
        "rectified_acc": gained / total if total else 0.0,
        "acc_inline": acc_inline,
        "f1": f1,
    }


def longdocurl_breakdown(
    rows: Iterable[LongDocURLRow], totals: Mapping[str, int] | None = None
) -> dict[str, float]:
    """Sums of scores by kind of question, each divided by a fixed count.

    Args:
        rows: scored questions.
        totals: counts to divide by, `OFFICIAL_COUNTS` by default, so that missing questions count 0; a kind
            without one is divided by the questions that are there.

    Returns:
        `task/<tag>`, `source/<label>`, `single_page`, `multi_page` and `cross_element` (several sources);
        of understanding and reasoning `<tag>, <pages>, <source>`, of locating `Locating, <kind>`.
    """
    scores: dict[str, list[float]] = {}
    for row in rows:
        for label in _labels(row):
            scores.setdefault(label, []).append(row.score)
    counts = {label: len(found) for label, found in scores.items()}
    counts |= OFFICIAL_COUNTS if totals is None else totals
    return {label: math.fsum(scores.get(label, ())) / counts[label] for label in sorted(counts)}


def longdocurl_clean(value: object) -> str:
    """The official cleaning: case, commas, units, parentheses, outer quotes, leading `$` and `£`, final `%`.

    Where a text ends with a unit, all letters of the unit go from its end: `Stockholm` becomes `stockhol`.
    """
    text = str(value).lower().strip().replace(",", "")
    for unit in _UNITS:
        if text.endswith(unit):
            text = text.rstrip(unit).strip()
    return unwrapped(text).lstrip("£").strip().rstrip("%").strip()


def _number_text(value: object) -> str:
    """What is read as a number: percent signs go once more from the cleaned text, so that `4 % %` is 4."""
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
    """Cleaned items; none where the official scorer fails, at dictionaries with something else behind."""
    if items and isinstance(items[0], dict):
        if not all(isinstance(item, dict) for item in items):
            return []
        items = ["-".join(map(str, item.values())) for item in items]
    return [longdocurl_clean(item) for item in items]


def _inline_score(row: Scored) -> float:
    inline = row.inline_score if isinstance(row, LongDocURLRow) else None
    return row.score if inline is None else inline


def _labels(row: LongDocURLRow) -> list[str]:
    sources = [source for source in row.evidence_sources if source in _SOURCES]
    labels = [f"task/{row.task_tag}"] if row.task_tag else []
    labels += [f"source/{source}" for source in sources]
    pages = "single_page" if len(row.evidence_pages) == 1 else "multi_page"
    if row.evidence_pages:
        labels.append(pages)
    if len(row.evidence_sources) > 1:
        labels.append("cross_element")
    if row.task_tag in ("Understanding", "Reasoning") and row.evidence_pages:
        labels += [f"{row.task_tag}, {pages}, {source}" for source in sources]
    if row.task_tag == "Locating" and row.question_type in _LOCATED:
        labels.append(f"Locating, {_LOCATED[row.question_type]}")
    return labels
