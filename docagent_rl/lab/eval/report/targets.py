"""Numbers of the papers, by recipe (`targets.yaml`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from docagent_rl.lab.eval.report.sums import ALL, Row

BENCHMARK_ROWS = "of the benchmark"
"""Kind of the lines that a benchmark's own table has."""
EVERY = "all"
"""In place of a dataset: over all questions of the benchmarks that the paper reports."""


@dataclass(frozen=True, slots=True)
class Target:
    """One printed number.

    Args:
        dataset: as records name it, or `EVERY`.
        measure: its name.
        value: as printed.
        row: line of a breakdown.
    """

    dataset: str
    measure: str
    value: float
    row: Row = ALL


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of a paper's table and what it rests on.

    Args:
        recipe: that reproduces it.
        system: of it.
        title: paper and table.
        model: that training started from.
        facts: retriever, text_retriever, judge, display, scope, temperature, note; what the paper does not
            say is not there.
        numbers: printed.
    """

    recipe: str
    system: str
    title: str
    model: str
    facts: Mapping[str, Any]
    numbers: tuple[Target, ...]

    def datasets(self) -> frozenset[str]:
        """Benchmarks that it reports."""
        return frozenset(number.dataset for number in self.numbers) - {EVERY}


@functools.cache
def paper_rows() -> tuple[PaperRow, ...]:
    """All rows, in the order of the file."""
    found = []
    data = _data()
    for row in data["rows"]:
        paper = data["papers"][row["paper"]]
        facts = {name: value for name, value in {**paper, **row}.items() if name in _FACTS}
        numbers = tuple(
            Target(each["dataset"], each["measure"], float(each["value"]), tuple(each.get("row", ALL)))
            for each in row["numbers"]
        )
        found.append(PaperRow(row["recipe"], row["paper"], paper["title"], row["model"], facts, numbers))
    return tuple(found)


def questions_of(dataset: str) -> int | None:
    """Questions of a benchmark's whole test set; `None` where no paper says."""
    return _data()["questions"].get(dataset)


def rows_for(recipe: str | None, system: str) -> list[PaperRow]:
    """The rows that a run is held against: those of its recipe, or all of its system where it names none."""
    of_recipe = [row for row in paper_rows() if row.recipe == recipe]
    return of_recipe or [row for row in paper_rows() if row.system == system]


_FACTS = frozenset({"retriever", "text_retriever", "judge", "display", "scope", "temperature", "note"})


@functools.cache
def _data() -> dict[str, Any]:
    text = (files("docagent_rl.lab.eval") / "report" / "targets.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)
