"""Numbers that the papers print, by recipe, and the facts on which they rest.

`targets.yaml` has those of the trained agents, `baselines.yaml` those of baselines, of models
before or between stages of training, and of ablations.
"""

import functools
from collections.abc import Iterable, Mapping, Sequence
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
    "table": "table",
    "retriever": "retriever",
    "text_retriever": "retriever of texts",
    "judge": "judge or extractor",
    "display": "size of pages",
    "scope": "pages searched",
    "temperature": "temperature",
    "note": "remark",
}
"""Names of facts by their keys, the same names as for a run (`run_facts.facts_of`)."""
_FORMS_OF_PAGES = {"text": "pages as text", "image": "pages as images"}


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
    """The system of the paper."""
    facts: Mapping[str, str]
    """Facts on which its numbers rest, by name, as far as the paper states them."""
    numbers: tuple[Target, ...]
    agent: str | None = None
    """The baseline that plays it (`docagent-rl eval --agent`); `None` for the system itself."""
    ablation: str | None = None
    """The ablation of the recipe that it is a row of."""
    details: tuple[str, ...] = ()
    """The paper's name for the method, the stage of training, and the form of pages."""

    @property
    def label(self) -> str:
        """Recipe, details and retriever."""
        retriever = self.facts.get("retriever", "").partition(" or ")[0]
        return ", ".join([self.recipe, *self.details, *([retriever] if retriever else [])])

    def datasets(self) -> frozenset[str]:
        """Return the benchmarks that the row reports."""
        return frozenset(number.dataset for number in self.numbers) - {EVERY}


@functools.cache
def paper_rows() -> tuple[PaperRow, ...]:
    """Return all rows, in the order of the files: trained agents first."""
    rows = [_row(row, row["numbers"]) for row in _data("targets")["rows"]]
    baselines = _data("baselines")
    for row in baselines["rows"]:
        # the columns of a table are stated once, and each row has its values in their order
        columns = zip(baselines["columns"][row["columns"]], row["values"], strict=True)
        numbers = [{**column, "value": value} for column, value in columns]
        rows.append(_row(row, numbers))
    return tuple(rows)


def _row(row: Mapping[str, Any], numbers: Iterable[Mapping[str, Any]]) -> PaperRow:
    paper = _data("targets")["papers"][row["paper"]]
    stage = row.get("stage")
    training = {None: "trained by the authors", "SFT": "fine-tuned by the authors"}
    origin = training.get(stage, stage)
    if "agent" in row and not row.get("trained"):
        origin = "as published"
    facts = {"paper": paper["title"], "model": f"{row['model']}, {origin}"}

    # a fact of a row goes before that of its paper
    stated = {**paper, **row}
    for key, name in _FACTS.items():
        if stated.get(key) is not None:
            facts[name] = _text(stated[key])

    details = (row.get("method"), stage, _FORMS_OF_PAGES.get(row.get("form")))
    targets = (
        Target(each["dataset"], each["measure"], float(each["value"]), tuple(each.get("row", ALL)))
        for each in numbers
    )
    return PaperRow(
        recipe=row["recipe"],
        system=row["paper"],
        facts=facts,
        numbers=tuple(targets),
        agent=row.get("agent"),
        ablation=row.get("ablation"),
        details=tuple(each for each in details if each),
    )


def size_of_test_set(dataset: str) -> int | None:
    """Return the number of questions of a benchmark's full test set; `None` if no paper says."""
    return _data("targets")["questions"].get(dataset)


def rows_for(recipe: str | None, system: str, overrides: Sequence[str] = ()) -> list[PaperRow]:
    """Return the rows with which a run is compared.

    For a published system they are those of its recipe, otherwise all of its paper; a run of an
    ablation (`+ablations=...` among the overrides) that has a row is compared with that one. For a
    baseline, named as a system is, they are its rows in the paper of the recipe.
    """
    ablations = {name for each in overrides for name in _ablations(each)}
    of_agent = [row for row in paper_rows() if (row.agent or row.system) == system]
    of_ablation = [row for row in of_agent if row.ablation in ablations]
    rows = of_ablation or [row for row in of_agent if row.ablation is None]
    of_recipe = [row for row in rows if row.recipe == recipe]
    return of_recipe or [row for row in rows if row.agent is None]


def _ablations(override: str) -> list[str]:
    """Return the ablations that an override chooses; it may be any override."""
    key, _, value = override.lstrip("+").partition("=")
    if key != "ablations":
        return []
    return value.strip("[]").replace(" ", "").split(",")


def _text(fact: Any) -> str:
    if isinstance(fact, Mapping):
        return ", ".join(f"{name} {value}" for name, value in fact.items())
    return " or ".join(fact) if isinstance(fact, list) else str(fact)


@functools.cache
def _data(name: str) -> dict[str, Any]:
    return yaml.safe_load(Path(__file__).with_name(f"{name}.yaml").read_text(encoding="utf-8"))
