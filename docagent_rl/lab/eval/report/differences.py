"""What separates a run's number from the paper's, as far as it can be told."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from docagent_rl.base.prompts import prompt_names
from docagent_rl.lab.eval.report.facts import OWN_PROMPT, RunFacts
from docagent_rl.lab.eval.report.targets import PaperRow, questions_of
from docagent_rl.lab.eval.scoring.experts import Author

UNSAID = "not known"


class Verdict(StrEnum):
    """How a fact of a run and of a paper compare."""

    SAME = "same"
    DIFFERENT = "different"
    UNKNOWN = "not known"


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
    """Facts of a run beside those of a row of a paper.

    Args:
        run: how it was played.
        row: of the paper.
        dataset: the benchmark.
        questions: of the run.
        judges: who judged or extracted; none where nobody has to.

    Returns:
        What one of the two says, at least.
    """
    facts = row.facts
    found = [
        _model(run, row.model),
        _names("retriever", run.retriever, facts.get("retriever")),
        *_texts(run.text_retriever, facts.get("text_retriever")),
        *_judges(judges, facts.get("judge")),
        _prompt(run.prompt),
        _questions(questions, questions_of(dataset)),
        _display(run.display, facts.get("display")),
        _plain("pages searched", run.scope, facts.get("scope")),
        _plain("temperature", run.temperature, facts.get("temperature")),
        *_changes(run.changes),
    ]
    if facts.get("note"):
        found.append(ProtocolFact("remark", UNSAID, str(facts["note"]), Verdict.UNKNOWN))
    return [fact for fact in found if (fact.ours, fact.paper) != (UNSAID, UNSAID)]


def _model(run: RunFacts, base: str) -> ProtocolFact:
    """The paper trained its model; a name alone does not tell whether ours is trained like it."""
    ours, verdict = run.agent or run.model, Verdict.UNKNOWN
    sized = ours is not None and re.search(r"\d", ours) and _plain_name(base) not in _plain_name(ours)
    if run.agent is not None or sized:
        verdict = Verdict.DIFFERENT
    return ProtocolFact("model", ours or UNSAID, f"{base}, trained by the authors", verdict)


def _names(name: str, ours: str | None, papers: list[str] | None) -> ProtocolFact:
    told = UNSAID if not papers else " or ".join(papers)
    if ours is None or not papers:
        return ProtocolFact(name, ours or UNSAID, told, Verdict.UNKNOWN)
    same = any(_is(ours, paper) for paper in papers)
    return ProtocolFact(name, ours, told, Verdict.SAME if same else Verdict.DIFFERENT)


def _is(ours: str, paper: str) -> bool:
    """Whether a name is the paper's, or that with a version or a date: others are of other models.

    `gpt-4o-mini` is not `gpt-4o`, nor `colqwen2.5-v0.2` a `colqwen2`, nor a quantised model itself.
    """
    name, wanted = (re.sub(r"[-_ ]+", "-", _last(each).lower()) for each in (ours, paper))
    return re.fullmatch(rf"{re.escape(wanted)}(?:-v?\d+(?:\.\d+)*|-hf|-merged|-en)*", name) is not None


def _texts(ours: str | None, papers: list[str] | None) -> list[ProtocolFact]:
    """What finds texts beside images, where the paper has both."""
    return [_names("retriever of texts", ours, papers)] if papers else []


def _judges(ours: Iterable[str], papers: list[str] | None) -> list[ProtocolFact]:
    names = sorted(set(ours))
    if not names:
        return []
    found = [_names("judge or extractor", name, papers) for name in names]
    if set(names) != {Author.RULE.value}:
        own = "this package's, in our words"
        found.append(ProtocolFact("its prompt", own, "the benchmark's or the authors'", Verdict.DIFFERENT))
    return found


def _changes(ours: tuple[str, ...] | None) -> list[ProtocolFact]:
    """What was set otherwise than in the recipe that follows the paper."""
    if not ours:
        return []
    return [ProtocolFact("settings of the recipe", ", ".join(ours), "as it has them", Verdict.DIFFERENT)]


def _last(name: str) -> str:
    """A model's name without its owner's."""
    return name.rpartition("/")[2]


def _prompt(ours: str | None) -> ProtocolFact:
    paper = "the authors'"
    if ours is None:
        return ProtocolFact("prompt", UNSAID, paper, Verdict.UNKNOWN)
    own = ours == OWN_PROMPT or ours in prompt_names()
    told = f"{ours}, in our words" if own else ours
    return ProtocolFact("prompt", told, paper, Verdict.DIFFERENT if own else Verdict.UNKNOWN)


def _questions(ours: int, paper: int | None) -> ProtocolFact:
    told = UNSAID if paper is None else f"{paper:,}"
    verdict = Verdict.UNKNOWN if paper is None else Verdict.SAME if ours == paper else Verdict.DIFFERENT
    return ProtocolFact("questions", f"{ours:,}", told, verdict)


def _display(ours: Mapping[str, Any] | None, paper: Mapping[str, Any] | None) -> ProtocolFact:
    told = UNSAID if not paper else _listed(paper)
    if not ours or not paper:
        return ProtocolFact("size of pages", UNSAID if not ours else _listed(ours), told, Verdict.UNKNOWN)
    if any(ours.get(name) is None for name in paper):
        verdict = Verdict.UNKNOWN
    else:
        verdict = Verdict.SAME if all(ours[name] == paper[name] for name in paper) else Verdict.DIFFERENT
    return ProtocolFact("size of pages", _listed(ours), told, verdict)


def _plain(name: str, ours: Any, paper: Any) -> ProtocolFact:
    verdict = Verdict.UNKNOWN
    if ours is not None and paper is not None:
        verdict = Verdict.SAME if ours == paper else Verdict.DIFFERENT
    told = [UNSAID if value is None else f"{value:g}" if isinstance(value, float) else str(value)
            for value in (ours, paper)]  # fmt: skip
    return ProtocolFact(name, *told, verdict)


def _listed(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items() if not isinstance(value, Mapping))


def _plain_name(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())
