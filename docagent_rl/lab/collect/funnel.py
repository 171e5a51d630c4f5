"""What filters left of a run, step by step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from docagent_rl.lab.agents.run_folder import Key
from docagent_rl.lab.collect.case import Case
from docagent_rl.lab.collect.filters import Balance, Filter

if TYPE_CHECKING:
    from rich.table import Table

PLAYED = "played"
_BALANCE = Balance().kind
_MUCH = 0.3
"""Share of right trajectories above which what balancing drops is named."""


@dataclass(frozen=True, slots=True)
class Stage:
    """What a step left.

    Args:
        name: of the step.
        trajectories: that were left.
        questions: that had one left.
        datasets: trajectories by dataset.
    """

    name: str
    trajectories: int
    questions: int
    datasets: dict[str, int]

    @classmethod
    def of(cls, name: str, cases: Sequence[Case]) -> Stage:
        """Of the cases that were left."""
        datasets = Counter(case.dataset for case in cases)
        return cls(name, len(cases), len({case.question for case in cases}), dict(sorted(datasets.items())))

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {
            "step": self.name,
            "trajectories": self.trajectories,
            "questions": self.questions,
            "datasets": self.datasets,
        }


@dataclass(slots=True)
class Funnel:
    """Trajectories on their way through filters.

    Args:
        trajectories: of the run, those that could not be played included.
        stages: what was played, then what each step left.
        dropped: by trajectory the step that dropped it.
        kept: trajectories that are left.
        unjudged: trajectories about which a judge gave no verdict, by the reason.
    """

    trajectories: int
    stages: list[Stage] = field(default_factory=list)
    dropped: dict[Key, str] = field(default_factory=dict)
    kept: list[Case] = field(default_factory=list)
    unjudged: Counter[str] = field(default_factory=Counter)

    def to_dict(self) -> dict[str, Any]:
        """As JSON takes it."""
        return {"trajectories": self.trajectories, "stages": [stage.to_dict() for stage in self.stages]}

    def warnings(self) -> list[str]:
        """What is dropped for want of a verdict; and for balance alone, where that is much: right
        trajectories, which were paid for.
        """
        found = [
            f"{count} trajectories have no verdict of a judge, and do not stay by one ({why}): the "
            "same command "
            "asks again"
            for why, count in sorted(self.unjudged.items())
        ]
        for before, stage in pairwise(self.stages):
            lost = before.trajectories - stage.trajectories
            if stage.name.endswith(f" {_BALANCE}") and lost > _MUCH * before.trajectories:
                found.append(
                    f"step '{stage.name}' drops {lost} of {before.trajectories} trajectories: collect more "
                    "of the rare ones, or raise `times` or `least` and run the same command, which only "
                    "filters"
                )
        return found

    def table(self) -> Table:
        """For the terminal."""
        from rich.table import Table

        from docagent_rl.base.terminal import shown

        datasets = sorted({name for stage in self.stages for name in stage.datasets})
        datasets = datasets if len(datasets) > 1 else []
        table = Table("step", title=f"{self.trajectories} trajectories recorded")
        for heading in (
            "trajectories",
            "left",
            "questions",
            *(map(shown, datasets) if len(datasets) > 1 else ()),
        ):
            table.add_column(heading, justify="right")
        before = self.trajectories
        for stage in self.stages:
            left = f"{stage.trajectories / before:.1%}" if before else "-"
            counts = [str(stage.datasets.get(name, 0)) for name in datasets]
            table.add_row(stage.name, str(stage.trajectories), left, str(stage.questions), *counts)
            before = stage.trajectories
        return table


def run_funnel(played: Iterable[Case], filters: Sequence[Filter], *, trajectories: int) -> Funnel:
    """Put cases through filters.

    Args:
        played: trajectories that were played, in the order of the run.
        filters: in order.
        trajectories: of the run, those that could not be played included.
    """
    cases = list(played)
    funnel = Funnel(trajectories, [Stage.of(PLAYED, cases)])
    for number, step in enumerate(filters, start=1):
        keeps = step.keep(cases)
        name = f"{number} {step.kind}"
        funnel.dropped |= {case.key: name for case, keep in zip(cases, keeps, strict=True) if not keep}
        cases = [case for case, keep in zip(cases, keeps, strict=True) if keep]
        funnel.stages.append(Stage.of(name, cases))
    funnel.kept = cases
    return funnel
