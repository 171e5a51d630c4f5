"""Write the numbers of a system's runs as Markdown tables, from the report on them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

COLUMNS = (
    ("rule", "rule judge †"),
    ("word_f1", "F1 over words"),
    ("page_recall", "page recall"),
    ("invalid_turns", "invalid turns"),
    ("finished", "finished"),
    ("turns", "turns"),
)
"""The measures by their names in the report, with headings; all but the last are in per cent."""
REWARD = "env:reward/total"


def table(report: Mapping[str, Any]) -> str:
    """Return a table for each set of questions, with a line for each run in the report's order."""
    sets = list(dict.fromkeys(name for run in report["runs"] for name in run["benchmarks"]))
    return "\n\n".join(_of(report["runs"], name) for name in sets) + "\n"


def _of(runs: Sequence[Mapping[str, Any]], name: str) -> str:
    heads = ["run", *(heading for _, heading in COLUMNS), "reward"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    found = [(run["name"], run["benchmarks"][name]) for run in runs if name in run["benchmarks"]]
    for run, numbers in found:
        measured = {number["measure"]: number for number in (*numbers["answers"], *numbers["use"])}
        cells = [_cell(measured.get(measure)) for measure, _ in COLUMNS]
        reward = measured.get(REWARD)
        lines.append(_line([run, *cells, "" if reward is None else f"{reward['value']:.2f}"]))
    count = max(numbers["questions"] for _, numbers in found)
    return f"**{name}**, {count} questions\n\n" + "\n".join(lines)


def _cell(number: Mapping[str, Any] | None) -> str:
    if number is None or number["value"] is None:
        return ""

    def shown(value: float) -> str:
        return f"{100 * value:.1f}" if number["unit"] == "%" else f"{value:.2f}"

    if number["low"] is None or number["high"] is None:
        return shown(number["value"])
    return f"{shown(number['value'])} [{shown(number['low'])}, {shown(number['high'])}]"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
