"""The one number that a paper prints over all of its benchmarks, beside the runs that have all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from docagent_rl.lab.eval.report.bootstrap import Interval
from docagent_rl.lab.eval.report.grids import (
    RULED,
    Grid,
    RunView,
    counted,
    label_of,
    listed,
    separating,
    shown,
)
from docagent_rl.lab.eval.report.papers import AgainstPaper
from docagent_rl.lab.eval.report.targets import EVERY
from docagent_rl.lab.eval.scoring.experts import Author
from docagent_rl.lab.eval.scoring.protocols import JUDGED, protocol_of

TITLE = "All benchmarks of a paper"


@dataclass(frozen=True, slots=True)
class Overall:
    """A number over several benchmarks; questions weigh the same, whichever benchmark they are of.

    Args:
        title: the number and the benchmarks.
        runs: of every run; `None` where it lacks one of the benchmarks.
        judges: who judged, of every run.
        printed: by the papers, by the label of their rows.
    """

    title: str
    runs: tuple[Interval | None, ...]
    judges: tuple[tuple[str, ...], ...]
    printed: dict[str, float]

    @property
    def ruled(self) -> bool:
        """Whether the embedded rule judge stood in for a model in some run."""
        return any(Author.RULE.value in judges for judges in self.judges)


def overall(views: Sequence[RunView]) -> list[Overall]:
    """The numbers over all benchmarks of the papers that the runs are held against."""
    every = [[each for each in view.papers if each.dataset == EVERY] for view in views]
    kinds = sorted({tuple(sorted(each.row.datasets())) for found in every for each in found})
    return [_over(kind, every) for kind in kinds]


def overall_grid(views: Sequence[RunView]) -> Grid | None:
    """The table; `None` where no run has all benchmarks of a paper."""
    rows = []
    for each in (found := overall(views)):
        cells = [
            shown(run, JUDGED.unit, ruled=Author.RULE.value in judges)
            for run, judges in zip(each.runs, each.judges, strict=True)
        ]
        by = ", ".join(sorted({name for judges in each.judges for name in judges}))
        printed = listed({label: f"{value:g}" for label, value in each.printed.items()})
        rows.append((each.title, by, counted(each.runs), *cells, printed))
    if not rows:
        return None
    names = (view.report.name for view in views)
    notes = [*([RULED] if any(each.ruled for each in found) else []), *separating(views, EVERY)]
    return Grid(
        f"{TITLE}: answers", ("number", "judged by", "questions", *names, "paper"), tuple(rows), tuple(notes)
    )


def _over(datasets: tuple[str, ...], every: Sequence[Sequence[AgainstPaper]]) -> Overall:
    mine = [[each for each in found if tuple(sorted(each.row.datasets())) == datasets] for found in every]
    first = [found[0] if found else None for found in mine]
    names = [protocol_of(dataset).name for dataset in datasets]
    return Overall(
        f"{JUDGED.title}, over {', '.join(names[:-1])} and {names[-1]}",
        tuple(None if one is None else one.numbers[0].ours for one in first),
        tuple(() if one is None else one.judges for one in first),
        {label_of(each): beside.target.value for found in mine for each in found for beside in each.numbers},
    )
