"""Numbers that the papers print, by recipe (`targets.yaml`), and the facts that separate a run from them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib.resources import files
from typing import Any

import yaml

from docagent_rl.base.prompts import prompt_names
from docagent_rl.lab.eval.report.statistics import ALL, Row
from docagent_rl.lab.eval.run_facts import OWN_PROMPT, RunFacts
from docagent_rl.lab.eval.scoring.experts import Author

BENCHMARK_ROWS = "of the benchmark"
"""Kind of the lines that a benchmark's own table has."""
EVERY = "all"
"""In place of a dataset: over all questions of the benchmarks that the paper reports."""
_FACTS = frozenset({"retriever", "text_retriever", "judge", "display", "scope", "temperature", "note"})


@dataclass(frozen=True, slots=True)
class Target:
    """One printed number."""

    dataset: str
    """As samples name it, or `EVERY`."""
    measure: str
    value: float
    row: Row = ALL


@dataclass(frozen=True, slots=True)
class PaperRow:
    """A row of a paper's table and the facts that it rests on."""

    recipe: str
    system: str
    title: str
    model: str
    """The model that training started from."""
    facts: Mapping[str, Any]
    """`_FACTS`, as far as the paper says them."""
    numbers: tuple[Target, ...]

    @property
    def label(self) -> str:
        """Recipe and retriever."""
        retriever = self.facts.get("retriever")
        return f"{self.recipe}{', ' + retriever[0] if retriever else ''}"

    def datasets(self) -> frozenset[str]:
        """Return the benchmarks that it reports."""
        return frozenset(number.dataset for number in self.numbers) - {EVERY}


@functools.cache
def paper_rows() -> tuple[PaperRow, ...]:
    """Return all rows, in the order of the file."""
    found, data = [], _data()
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
    """Return the questions of a benchmark's whole test set; `None` where no paper says."""
    return _data()["questions"].get(dataset)


def rows_for(recipe: str | None, system: str) -> list[PaperRow]:
    """Return the rows that a run is held against: of its recipe, or all of its system where it names none."""
    of_recipe = [row for row in paper_rows() if row.recipe == recipe]
    return of_recipe or [row for row in paper_rows() if row.system == system]


@functools.cache
def _data() -> dict[str, Any]:
    text = (files("docagent_rl.lab.eval") / "report" / "targets.yaml").read_text(encoding="utf-8")
    return yaml.safe_load(text)


NOT_KNOWN = "not known"


class Verdict(StrEnum):
    """Comparison of a fact of a run with that of a paper."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class ProtocolFact:
    """One fact of a run and of a paper."""

    name: str
    ours: str
    paper: str
    verdict: Verdict

    @classmethod
    def of(cls, name: str, ours: str | None, paper: str | None, same: bool | None = None) -> ProtocolFact:
        """Compare; `None` is a side that does not say, and of `same` that nobody can tell."""
        verdict = {None: Verdict.UNKNOWN, True: Verdict.SAME, False: Verdict.DIFFERENT}[same]
        return cls(name, ours or NOT_KNOWN, paper or NOT_KNOWN, verdict)


def differences(
    run: RunFacts, row: PaperRow, dataset: str, questions: int, judges: Iterable[str]
) -> list[ProtocolFact]:
    """Return the facts of a run beside those of a row of a paper that at least one of the two says.

    `questions` is the number of the run's questions; `judges` are those who judged or extracted.
    """
    of, facts, authors = ProtocolFact.of, row.facts, "the authors'"
    # a name does not tell whether a model is trained like the paper's
    sized = run.model and re.search(r"\d", run.model) and _letters(row.model) not in _letters(run.model)
    other = False if run.agent is not None or sized else None
    found = [
        of("model", run.agent or run.model, f"{row.model}, trained by the authors", other),
        _names("retriever", run.retriever, facts.get("retriever")),
    ]
    if facts.get("text_retriever"):
        found.append(_names("retriever of texts", run.text_retriever, facts["text_retriever"]))
    names = sorted(set(judges))
    found += [_names("judge or extractor", name, facts.get("judge")) for name in names]
    if set(names) - {Author.RULE.value}:
        found.append(of("its prompt", "this package's, in our words", f"the benchmark's or {authors}", False))
    packaged = run.prompt == OWN_PROMPT or run.prompt in prompt_names()
    prompt = f"{run.prompt}, in our words" if packaged else run.prompt
    display, theirs = run.display or {}, facts.get("display") or {}
    told = bool(theirs) and all(display.get(name) is not None for name in theirs)
    same = all(display[name] == theirs[name] for name in theirs) if told else None
    found += [
        of("prompt", prompt, authors, False if packaged else None),
        _equal("questions", questions, questions_of(dataset), "{:,}"),
        of("size of pages", _listed(display), _listed(theirs), same),
        _equal("pages searched", run.scope, facts.get("scope")),
        _equal("temperature", run.temperature, facts.get("temperature"), "{:g}"),
    ]
    if run.changes:
        found.append(of("settings of the recipe", ", ".join(run.changes), "as it has them", False))
    found.append(of("remark", None, facts.get("note")))
    return [fact for fact in found if (fact.ours, fact.paper) != (NOT_KNOWN, NOT_KNOWN)]


def _names(fact: str, ours: str | None, papers: list[str] | None) -> ProtocolFact:
    """Compare names, without those of owners.

    A name is the paper's, or that with a version or a date: `gpt-4o-mini` is not `gpt-4o`, nor
    `colqwen2.5-v0.2` a `colqwen2`, nor a quantised model itself.
    """
    same = None
    if ours is not None and papers:
        name, *theirs = (re.sub(r"[-_ ]+", "-", e.rpartition("/")[2].lower()) for e in (ours, *papers))
        version = r"(?:-v?\d+(?:\.\d+)*|-hf|-merged|-en)*"
        same = any(re.fullmatch(re.escape(each) + version, name) for each in theirs)
    return ProtocolFact.of(fact, ours, " or ".join(papers or ()), same)


def _equal(name: str, ours: Any, paper: Any, form: str = "{}") -> ProtocolFact:
    texts = (None if value is None else form.format(value) for value in (ours, paper))
    return ProtocolFact.of(name, *texts, None if ours is None or paper is None else ours == paper)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if not isinstance(value, Mapping))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
