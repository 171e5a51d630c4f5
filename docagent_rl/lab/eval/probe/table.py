"""What is left of the scores, as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from docagent_rl.lab.eval.probe.conditions import Condition
from docagent_rl.lab.eval.report.bootstrap import Interval
from docagent_rl.lab.eval.report.build import ReportSettings
from docagent_rl.lab.eval.report.grids import MARK, NOTHING, RULED, Grid, p_text, shown
from docagent_rl.lab.eval.report.paired import compare
from docagent_rl.lab.eval.report.permutation import FEWEST
from docagent_rl.lab.eval.scoring.experts import Author, Expert
from docagent_rl.lab.eval.scoring.measures import Unit
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredSession

_MARK, _VERSION = "docagent_rl_probe", 1
_HEAD = ("shown", "number", "less as they are", "left", "p", "questions", "documents")
_NOTE = (
    "left: the number as a share of that with the documents as they are; what is left without pages did not "
    "come from reading them. Brackets: 95 % over resamples of documents, question by question; "
    f"p: none of fewer than {FEWEST} documents"
)


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a benchmark's headline number under a condition.

    Args:
        dataset: the benchmark.
        measure: name of the number.
        condition: what was done to the documents.
        value: the number.
        change: less the number with the documents as they are, question by question.
        share: the number over that one; None where that is 0.
        p: that chance alone makes such a change.
        ruled: the embedded rule judge stands in for a model.
    """

    dataset: str
    measure: str
    condition: Condition
    value: float | None
    change: Interval
    share: float | None
    p: float | None
    ruled: bool


def left_of(
    runs: Mapping[Condition, Sequence[ScoredSession]], settings: ReportSettings | None = None
) -> list[Left]:
    """What is left of every benchmark's headline under every condition, the documents as they are first.

    Args:
        runs: scored sessions of the same questions; `Condition.AS_IS` is among them.
        settings: of the resamples.
    """
    settings = settings or ReportSettings()
    whole = [each for each in runs[Condition.AS_IS] if each.scored]
    found = []
    for dataset in sorted({each.dataset for each in whole}):
        headline = protocol_of(dataset).headline
        before = [each for each in whole if each.dataset == dataset]
        for condition, sessions in runs.items():
            after = [each for each in sessions if each.dataset == dataset and each.scored]
            (change,) = compare(before, after, [headline], draws=settings.draws, seed=settings.seed).whole
            share = change.second / change.first if change.first and change.second is not None else None
            ruled = any(_by_rule(each, headline.expert) for each in (*before, *after))
            found.append(
                Left(dataset, headline.name, condition, change.second, change.gain, share, change.p, ruled)
            )
    return found


def grids_of(found: Sequence[Left]) -> list[Grid]:
    """A table a benchmark."""
    grids = []
    for dataset in dict.fromkeys(each.dataset for each in found):
        protocol = protocol_of(dataset)
        unit = protocol.headline.unit
        mine = [each for each in found if each.dataset == dataset]
        rows = tuple(
            (
                each.condition.value,
                _number(each.value, unit),
                NOTHING if each.condition is Condition.AS_IS else shown(each.change, unit, sign=True),
                NOTHING if each.share is None else f"{100 * each.share:.0f} %",
                p_text(None if each.condition is Condition.AS_IS else each.p),
                f"{each.change.questions:,}",
                f"{each.change.documents:,}",
            )
            for each in mine
        )
        ruled = any(each.ruled for each in mine)
        title = f"{protocol.name}: {protocol.headline.title}{MARK if ruled else ''}"
        grids.append(Grid(title, _HEAD, rows, (_NOTE, *([RULED] if ruled else []))))
    return grids


def as_json(found: Sequence[Left]) -> str:
    """All numbers."""
    data = {_MARK: _VERSION, "left": [asdict(each) for each in found]}
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def is_ours(content: bytes) -> bool:
    """Whether it is what `as_json` wrote."""
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and _MARK in found


def _number(value: float | None, unit: Unit) -> str:
    if value is None:
        return NOTHING
    return f"{100 * value:.1f}" if unit is Unit.PERCENT else f"{value:,.2f}"


def _by_rule(session: ScoredSession, expert: Expert | None) -> bool:
    return expert is not None and session.experts.get(expert.value, {}).get("by") == Author.RULE.value
