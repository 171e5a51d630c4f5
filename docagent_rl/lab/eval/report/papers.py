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
    """One printed number.

    Args:
        dataset: as samples name it, or `EVERY`.
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

    @property
    def label(self) -> str:
        """The row in a word or two."""
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
    """How a fact of a run and of a paper compare."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = NOT_KNOWN


@dataclass(frozen=True, slots=True)
class ProtocolFact:
    """One fact.

    Args:
        name: of it.
        ours: of the run.
        paper: of the paper.
        verdict: how they compare.
    """

    name: str
    ours: str
    paper: str
    verdict: Verdict


def differences(
    run: RunFacts, row: PaperRow, dataset: str, questions: int, judges: Iterable[str]
) -> list[ProtocolFact]:
    """Return facts of a run beside those of a row of a paper; what one of the two says, at least.

    Args:
        run: how it was played.
        row: of the paper.
        dataset: the benchmark.
        questions: of the run.
        judges: who judged or extracted; none where nobody has to.
    """
    facts = row.facts
    found = [_model(run, row.model), _names("retriever", run.retriever, facts.get("retriever"))]
    if facts.get("text_retriever"):
        found.append(_names("retriever of texts", run.text_retriever, facts["text_retriever"]))
    found += _judges(judges, facts.get("judge"))
    found += [
        _prompt(run.prompt),
        _equal("questions", questions, questions_of(dataset), "{:,}"),
        _display(run.display or {}, facts.get("display") or {}),
        _equal("pages searched", run.scope, facts.get("scope")),
        _equal("temperature", run.temperature, facts.get("temperature"), "{:g}"),
    ]
    if run.changes:
        changes = ", ".join(run.changes)
        found.append(ProtocolFact("settings of the recipe", changes, "as it has them", Verdict.DIFFERENT))
    if facts.get("note"):
        found.append(ProtocolFact("remark", NOT_KNOWN, str(facts["note"]), Verdict.UNKNOWN))
    return [fact for fact in found if (fact.ours, fact.paper) != (NOT_KNOWN, NOT_KNOWN)]


def _model(run: RunFacts, base: str) -> ProtocolFact:
    """Compare models: the paper trained its own, and a name does not tell whether ours is trained like it."""
    ours, verdict = run.agent or run.model, Verdict.UNKNOWN
    sized = ours is not None and re.search(r"\d", ours) and _letters(base) not in _letters(ours)
    if run.agent is not None or sized:
        verdict = Verdict.DIFFERENT
    return ProtocolFact("model", ours or NOT_KNOWN, f"{base}, trained by the authors", verdict)


def _names(name: str, ours: str | None, papers: list[str] | None) -> ProtocolFact:
    verdict = Verdict.UNKNOWN
    if ours is not None and papers:
        verdict = Verdict.SAME if any(_is(ours, paper) for paper in papers) else Verdict.DIFFERENT
    return ProtocolFact(name, ours or NOT_KNOWN, " or ".join(papers or ()) or NOT_KNOWN, verdict)


def _is(ours: str, paper: str) -> bool:
    """Return whether a name is the paper's, or that with a version or a date: others are of other models.

    `gpt-4o-mini` is not `gpt-4o`, nor `colqwen2.5-v0.2` a `colqwen2`, nor a quantised model itself.
    """
    # without the owner's name
    name, wanted = (re.sub(r"[-_ ]+", "-", each.rpartition("/")[2].lower()) for each in (ours, paper))
    return re.fullmatch(rf"{re.escape(wanted)}(?:-v?\d+(?:\.\d+)*|-hf|-merged|-en)*", name) is not None


def _judges(ours: Iterable[str], papers: list[str] | None) -> list[ProtocolFact]:
    names = sorted(set(ours))
    found = [_names("judge or extractor", name, papers) for name in names]
    if set(names) - {Author.RULE.value}:
        own = "this package's, in our words"
        found.append(ProtocolFact("its prompt", own, "the benchmark's or the authors'", Verdict.DIFFERENT))
    return found


def _prompt(ours: str | None) -> ProtocolFact:
    paper = "the authors'"
    if ours == OWN_PROMPT or ours in prompt_names():
        return ProtocolFact("prompt", f"{ours}, in our words", paper, Verdict.DIFFERENT)
    return ProtocolFact("prompt", ours or NOT_KNOWN, paper, Verdict.UNKNOWN)


def _display(ours: Mapping[str, Any], paper: Mapping[str, Any]) -> ProtocolFact:
    verdict = Verdict.UNKNOWN
    if ours and paper and all(ours.get(name) is not None for name in paper):
        same = all(ours[name] == paper[name] for name in paper)
        verdict = Verdict.SAME if same else Verdict.DIFFERENT
    texts = [_listed(each) if each else NOT_KNOWN for each in (ours, paper)]
    return ProtocolFact("size of pages", *texts, verdict)


def _equal(name: str, ours: Any, paper: Any, form: str = "{}") -> ProtocolFact:
    verdict = Verdict.UNKNOWN
    if ours is not None and paper is not None:
        verdict = Verdict.SAME if ours == paper else Verdict.DIFFERENT
    texts = [NOT_KNOWN if value is None else form.format(value) for value in (ours, paper)]
    return ProtocolFact(name, *texts, verdict)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if not isinstance(value, Mapping))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
