"""A unit of the study: a system, an arm and a seed; and the paths of its files."""

from __future__ import annotations

import itertools
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
    """A run of reinforcement learning with its warm start.

    Args:
        system: the system's name in the registry.
        arm: `REWARD`, `SHUFFLED` or an ablation of the task.
        seed: the seed of weights, data order and sampling; documents are the same for all seeds.
    """

    system: str
    arm: str
    seed: int

    @property
    def name(self) -> str:
        """The unit's name in file names."""
        return f"{self.arm}-{self.seed}"

    @property
    def task(self) -> ProofTask:
        """The task of the system."""
        return get_task(self.system)

    @property
    def ablation(self) -> str | None:
        """The name of the ablation; None if the arm is not one."""
        return None if self.arm in (REWARD, SHUFFLED) else self.arm

    @property
    def steps(self) -> int:
        """The number of steps of reinforcement learning."""
        own = self.task.ablations[self.ablation].steps if self.ablation else None
        return self.task.sizes.steps if own is None else own

    @property
    def own_warm_start(self) -> bool:
        """Return whether the arm has a warm start of its own, which no other arm shares."""
        return self.ablation is not None and self.task.ablations[self.ablation].own_warm_start


@dataclass(frozen=True, slots=True)
class ProofPaths:
    """The paths of all files of a system, below an absolute `root`."""

    root: Path
    system: str

    @property
    def folder(self) -> Path:
        """The folder of the system."""
        return self.root / self.system

    @property
    def task(self) -> DemoPaths:
        """The paths of documents and questions, which all seeds share; `data` takes a `Part`."""
        return DemoPaths(self.folder / "task")

    def warm_start(self, unit: Unit) -> Path:
        """Return the folder of the model that a unit begins with.

        The folder `<name>-sft` beside it has the files from which the model was made.
        """
        name = unit.arm if unit.own_warm_start else "shared"
        return self.folder / f"seed-{unit.seed}" / f"warm_start-{name}"

    def run(self, unit: Unit) -> Path:
        """Return the folder of the trainer."""
        return self.folder / f"seed-{unit.seed}" / unit.arm


def arms(task: ProofTask) -> list[str]:
    """Return all arms of a task."""
    return [REWARD, SHUFFLED, *task.ablations]


def in_order(
    systems: Sequence[str], chosen: Sequence[str] | None = None, seeds: Sequence[int] = SEEDS
) -> Iterator[Unit]:
    """Yield units, the most informative first.

    The first seed of every arm comes first, then the other seeds; among the arms of a seed, reward
    comes before the control, and the control before ablations.

    Args:
        systems: the systems.
        chosen: the arms; by default all.
        seeds: the seeds, in their order.

    Raises:
        UserError: a system has no such arm.
    """
    tasks = {system: get_task(system) for system in systems}
    for arm in chosen or ():
        if lacking := [system for system, task in tasks.items() if arm not in arms(task)]:
            known = ", ".join(arms(tasks[lacking[0]]))
            raise UserError(f"{lacking[0]} has no arm {arm!r}; it has {known}")
    for seed in seeds:
        # the first arms of all systems, then their second arms, and so on
        for arms_of_systems in itertools.zip_longest(*map(arms, tasks.values())):
            for system, arm in zip(tasks, arms_of_systems, strict=True):
                if arm is not None and (not chosen or arm in chosen):
                    yield Unit(system, arm, seed)
