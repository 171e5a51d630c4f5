"""A unit of the study: a system, what it is paid or lacks, a seed; and where its parts are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.workspace import DemoPaths
from proof.tasks import ProofTask, get_task

REWARD = "reward"
"""The arm that is trained as the recipe says."""
SHUFFLED = "shuffled"
"""The arm whose rewards are permuted over the trajectories of a batch."""
SEEDS = (0, 1, 2)


@dataclass(frozen=True, slots=True)
class Unit:
    """One run of reinforcement learning and what belongs to it.

    Args:
        system: name in the registry.
        arm: `REWARD`, `SHUFFLED` or an ablation of the task.
        seed: of weights, data order and sampling; documents are the same for all seeds.
    """

    system: str
    arm: str
    seed: int

    @property
    def name(self) -> str:
        """Return its name in file names."""
        return f"{self.arm}-{self.seed}"

    @property
    def task(self) -> ProofTask:
        """Return the task that is played."""
        return get_task(self.system)

    @property
    def ablation(self) -> str | None:
        """The ablation, if it is one."""
        return None if self.arm in (REWARD, SHUFFLED) else self.arm

    @property
    def steps(self) -> int:
        """Steps of reinforcement learning."""
        own = self.task.ablations[self.ablation].steps if self.ablation else None
        return self.task.sizes.steps if own is None else own

    @property
    def own_warm_start(self) -> bool:
        """Return whether no other arm begins where it does."""
        return self.ablation is not None and self.task.ablations[self.ablation].own_warm_start


@dataclass(frozen=True, slots=True)
class ProofPaths:
    """Places of everything of a system; `root` is absolute."""

    root: Path
    system: str

    @property
    def folder(self) -> Path:
        """Return the folder of the system."""
        return self.root / self.system

    @property
    def task(self) -> DemoPaths:
        """Documents and questions, shared by all seeds; `data` takes a `Part`."""
        return DemoPaths(self.folder / "task")

    def warm_start(self, unit: Unit) -> Path:
        """The model that a unit begins with, and in `sft` beside it what it was made of."""
        name = unit.arm if unit.own_warm_start else "shared"
        return self.folder / f"seed-{unit.seed}" / f"warm_start-{name}"

    def run(self, unit: Unit) -> Path:
        """Folder of the trainer's run."""
        return self.folder / f"seed-{unit.seed}" / unit.arm


def arms(task: ProofTask) -> list[str]:
    """All arms of a task."""
    return [REWARD, SHUFFLED, *task.ablations]


def in_order(
    systems: Sequence[str], chosen: Sequence[str] | None = None, seeds: Sequence[int] = SEEDS
) -> Iterator[Unit]:
    """Units, the most informative first: the first seed of every arm, reward before controls, then
    other seeds.

    Args:
        systems: of them.
        chosen: arms; by default all.
        seeds: in their order.

    Raises:
        UserError: a system has no such arm.
    """
    tasks = {system: get_task(system) for system in systems}
    for arm in chosen or ():
        if lacking := [system for system, task in tasks.items() if arm not in arms(task)]:
            known = ", ".join(arms(tasks[lacking[0]]))
            raise UserError(f"{lacking[0]} has no arm {arm!r}; it has {known}")
    most = max((len(arms(task)) for task in tasks.values()), default=0)
    for seed in seeds:
        for place in range(most):
            for system, task in tasks.items():
                known = arms(task)
                if place < len(known) and (not chosen or known[place] in chosen):
                    yield Unit(system, known[place], seed)
