"""Numbers that the papers print, by recipe (`targets.yaml`), and the facts on which they rest."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docagent_rl.lab.eval.report.statistics import ALL, Row

BENCHMARK_ROWS = "of the benchmark"
"""Kind of the breakdown lines that come from a benchmark's own table."""
EVERY = "all"
"""Stands for a dataset: all questions of the benchmarks that the paper reports."""
_FACTS = {
    "retriever": "retriever",
    "text_retriever": "retriever of texts",
    "judge": "judge or extractor",
    "display": "size of pages",
    "scope": "pages searched",
    "temperature": "temperature",
    "note": "remark",
}
"""Names of facts by their keys, the same names as for a run (`run_facts.facts_of`)."""


@dataclass(frozen=True, slots=True)
class Target:
    """One printed number."""

    dataset: str
    """The dataset's name in samples, or `EVERY`."""
    measure: str
    value: float
    row: Row = ALL


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of a paper's table, and the facts on which it rests."""

    recipe: str
    system: str
    facts: Mapping[str, str]
    """Facts on which its numbers rest, by name, as far as the paper states them."""
    numbers: tuple[Target, ...]

    @property
    def label(self) -> str:
        """Recipe and retriever."""
        retriever = self.facts.get("retriever")
        return f"{self.recipe}{', ' + retriever.partition(' or ')[0] if retriever else ''}"

    def datasets(self) -> frozenset[str]:
        """Return the benchmarks that the row reports."""
        return frozenset(number.dataset for number in self.numbers) - {EVERY}


@functools.cache
def paper_rows() -> tuple[PaperRow, ...]:
    """Return all rows, in the order of the file."""
    found = []
    data = _data()
    for row in data["rows"]:
        paper = data["papers"][row["paper"]]
        given = {**paper, **row}
        facts = {"paper": paper["title"], "model": f"{row['model']}, trained by the authors"}
        facts |= {
            name: _text(given[key]) for key, name in _FACTS.items() if given.get(key) is not None
        }
        numbers = tuple(
            Target(
                each["dataset"], each["measure"], float(each["value"]), tuple(each.get("row", ALL))
            )
            for each in row["numbers"]
        )
        found.append(PaperRow(row["recipe"], row["paper"], facts, numbers))
    return tuple(found)


def size_of_test_set(dataset: str) -> int | None:
    """Return the number of questions of a benchmark's full test set; `None` if no paper says."""
    return _data()["questions"].get(dataset)


def rows_for(recipe: str | None, system: str) -> list[PaperRow]:
    """Return the rows with which a run is compared: those of its recipe, or otherwise all rows of
    its system's paper.
    """
    found = [row for row in paper_rows() if row.system == system]
    return [row for row in found if row.recipe == recipe] or found


def _text(fact: Any) -> str:
    if isinstance(fact, Mapping):
        return ", ".join(f"{name} {value}" for name, value in fact.items())
    return " or ".join(fact) if isinstance(fact, list) else str(fact)


@functools.cache
def _data() -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name("targets.yaml").read_text(encoding="utf-8"))
