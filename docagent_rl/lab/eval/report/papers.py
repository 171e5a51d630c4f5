"""Numbers that the papers print, by recipe (`targets.yaml`), and what these rest on."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docagent_rl.lab.eval.report.statistics import ALL, Row

BENCHMARK_ROWS = "of the benchmark"
"""Kind of the lines that a benchmark's own table has."""
EVERY = "all"
"""In place of a dataset: over all questions of the benchmarks that the paper reports."""
_FACTS = {
    "retriever": "retriever",
    "text_retriever": "retriever of texts",
    "judge": "judge or extractor",
    "display": "size of pages",
    "scope": "pages searched",
    "temperature": "temperature",
    "note": "remark",
}
"""Names of facts, as those of a run are called (`run_facts.facts_of`), by their keys."""


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
    """A row of a paper's table and the facts that it rests on."""

    recipe: str
    system: str
    facts: Mapping[str, str]
    """Facts that its numbers rest on, by name, as far as the paper says."""
    numbers: tuple[Target, ...]

    @property
    def label(self) -> str:
        """Recipe and retriever."""
        retriever = self.facts.get("retriever")
        return f"{self.recipe}{', ' + retriever.partition(' or ')[0] if retriever else ''}"

    def datasets(self) -> frozenset[str]:
        """Return the benchmarks that it reports."""
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
    """Return the questions of a benchmark's whole test set; `None` where no paper says."""
    return _data()["questions"].get(dataset)


def rows_for(recipe: str | None, system: str) -> list[PaperRow]:
    """Return the rows that a run is held against: of its system's paper, for its recipe where it
    has some.
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
