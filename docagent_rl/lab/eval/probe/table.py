"""Shares of the scores that are left under every condition, as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from docagent_rl.lab.eval.probe.conditions import Condition
from docagent_rl.lab.eval.report.benchmark import ReportSettings, authors
from docagent_rl.lab.eval.report.grid import NOTHING, Grid
from docagent_rl.lab.eval.report.paired import compare
from docagent_rl.lab.eval.report.statistics import FEWEST, Interval
from docagent_rl.lab.eval.report.tables import MARK, RULED, digits, p_text, shown
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import protocol_of
from docagent_rl.lab.eval.scoring.scored import ScoredTrajectory

_MARK, _VERSION = "docagent_rl_probe", 1
_HEAD = ("shown", "number", "less as they are", "left", "p", "questions", "documents")
_NOTE = (
    "left: the number as a share of that with the documents as they are; what is left without pages did not "
    "come from reading them. Brackets: 95 % over resamples of documents, question by question; "
    f"p: none of fewer than {FEWEST} documents"
)


@dataclass(frozen=True, slots=True)
class Left:
    """A benchmark's headline number under a condition.

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
    runs: Mapping[Condition, Sequence[ScoredTrajectory]], settings: ReportSettings | None = None
) -> list[Left]:
    """Return every benchmark's headline under every condition, the documents as they are first.

    Args:
        runs: scored trajectories of the same questions; `Condition.AS_IS` is among them.
        settings: of the resamples.
    """
    settings, found = settings or ReportSettings(), []
    for dataset in sorted({each.dataset for each in runs[Condition.AS_IS] if each.scored}):
        headline = protocol_of(dataset).headline
        sides = {
            condition: [each for each in trajectories if each.dataset == dataset and each.scored]
            for condition, trajectories in runs.items()
        }
        before = sides[Condition.AS_IS]
        for condition, after in sides.items():
            (change,) = compare(before, after, [headline], draws=settings.draws, seed=settings.seed).whole
            share = change.second / change.first if change.first and change.second is not None else None
            ruled = headline.expert is not None and Author.RULE.value in authors(headline, (*before, *after))
            found.append(
                Left(dataset, headline.name, condition, change.second, change.gain, share, change.p, ruled)
            )
    return found


def grids_of(found: Sequence[Left]) -> list[Grid]:
    """Return a table a benchmark."""
    grids = []
    for dataset in dict.fromkeys(each.dataset for each in found):
        protocol = protocol_of(dataset)
        mine = [each for each in found if each.dataset == dataset]
        ruled = any(each.ruled for each in mine)
        title = f"{protocol.name}: {protocol.headline.title}{MARK if ruled else ''}"
        grids.append(Grid(title, _HEAD, tuple(map(_row, mine)), (_NOTE, *([RULED] if ruled else []))))
    return grids


def as_json(found: Sequence[Left]) -> str:
    """Return all numbers."""
    data = {_MARK: _VERSION, "left": [asdict(each) for each in found]}
    return json.dumps(data, indent=2, allow_nan=False) + "\n"


def is_ours(content: bytes) -> bool:
    """Return whether it is what `as_json` wrote."""
    try:
        found = json.loads(content)
    except ValueError:
        return False
    return isinstance(found, dict) and _MARK in found


def _row(left: Left) -> tuple[str, ...]:
    unit, whole = protocol_of(left.dataset).headline.unit, left.condition is Condition.AS_IS
    return (
        left.condition.value,
        digits(left.value, unit),
        NOTHING if whole else shown(left.change, unit, sign=True),
        NOTHING if left.share is None else f"{100 * left.share:.0f} %",
        p_text(None if whole else left.p),
        f"{left.change.questions:,}",
        f"{left.change.documents:,}",
    )
