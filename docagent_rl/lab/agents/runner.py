"""A run: many trajectories at a time, each stored when it ends, going on where it was stopped."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.endpoints.meter import BudgetError
from docagent_rl.endpoints.retrying import run_jobs
from docagent_rl.lab.agents.run_folder import Key, RunFolder, key_of, service_failed
from docagent_rl.rewards.custom.function import RewardFunctionError
from docagent_rl.rollout.recorder import Player, new_trajectory
from docagent_rl.rollout.trajectory import MaskReason, Status, Trajectory
from docagent_rl.samples.sample import Sample


@dataclass(frozen=True, slots=True)
class RunSettings:
    """The numbers of a run."""

    trajectories: int = 1
    """Trajectories of each question."""
    concurrency: int = 8
    """Trajectories at a time."""
    attempts: int = 2
    """Starts of a trajectory that a service fails, before it is recorded as masked."""
    stop_after: int = 16
    """Trajectories in a row that a service failed, after which it is taken for dead."""


@dataclass(slots=True)
class Runner:
    """A run of a player, which stays open, over questions, in a folder that was begun.

    `listener` is called with every trajectory of the run, those of earlier starts first.
    """

    player: Player
    system: str
    folder: RunFolder
    settings: RunSettings = field(default_factory=RunSettings)
    listener: Callable[[Trajectory], None] = lambda _: None
    _failed_in_row: int = 0

    async def run(self, samples: Sequence[Sample]) -> None:
        """Play what has not been played; at the end all trajectories lie in the order of the
        questions.

        A question that cannot be played, and a trajectory that a service fails, are recorded as
        masked, with the reason. The latter are played again when the run is started again.

        Raises:
            UserError: questions share an id, another process writes the folder, or the budget is
                spent (`BudgetError`); what was played is kept.
            InfrastructureError: the service is dead; what was played is kept.
        """
        tasks = tasks_of(samples, self.settings.trajectories)
        with self.folder.writing() as append:
            played = set()
            for trajectory in self.folder.trajectories():
                if key_of(trajectory) in tasks and not service_failed(trajectory):
                    played.add(key_of(trajectory))
                    self.listener(trajectory)
            left = [key for key in tasks if key not in played]
            undone = len(left)
            one_at_a_time = asyncio.Lock()

            async def play(key: Key) -> None:
                nonlocal undone
                trajectory = await self._trajectory(tasks[key], key[1])
                async with one_at_a_time:  # off the loop: the disk is waited for
                    await asyncio.to_thread(append, trajectory)
                undone -= 1
                self.listener(trajectory)

            try:
                await run_jobs(left, play, at_once=self.settings.concurrency)
            except BudgetError as error:
                raise error.leaving(f"{undone} of {len(tasks)} trajectories") from error
            self.folder.order(list(tasks))

    async def _trajectory(self, sample: Sample, number: int) -> Trajectory:
        trajectory = masked(sample, number, self.system, MaskReason.INFRASTRUCTURE, "")
        for attempt in range(1, self.settings.attempts + 1):
            try:
                trajectory = await self.player.play(sample, number)
            except BudgetError:
                raise
            except UserError as problem:
                trajectory = masked(sample, number, self.system, MaskReason.SAMPLE, str(problem))
            except RewardFunctionError as problem:
                trajectory.error = str(problem)
                trajectory.attempts = attempt
                break
            except (InfrastructureError, OSError, TimeoutError) as problem:
                trajectory.error = f"{type(problem).__name__}: {problem}"
                trajectory.attempts = attempt
                continue
            else:
                self._failed_in_row = 0
            trajectory.attempts = attempt
            return trajectory
        self._failed_in_row += 1
        if self._failed_in_row >= self.settings.stop_after:
            raise InfrastructureError(
                f"{self._failed_in_row} trajectories in a row failed, the last one with "
                f"{trajectory.error}; "
                "what was played is kept, and the same command goes on"
            )
        return trajectory


def masked(sample: Sample, number: int, system: str, reason: MaskReason, error: str) -> Trajectory:
    """Return the record of a trajectory that was not played, for a reason."""
    trajectory = new_trajectory(sample, number, system)
    trajectory.status = Status.MASKED.value
    trajectory.end = reason.value
    trajectory.error = error
    return trajectory


def tasks_of(samples: Iterable[Sample], trajectories: int) -> dict[Key, Sample]:
    """Return the questions of the trajectories that are to be played, by these, in order.

    Raises:
        UserError: two questions share an id.
    """
    seen: dict[str, str] = {}
    for sample in (samples := list(samples)):
        if sample.question_id in seen:
            raise UserError(
                f"two questions have the id {sample.question_id!r}, of {seen[sample.question_id]} "
                "and "
                f"{sample.dataset}: play each benchmark by itself, or give them ids of their own"
            )
        seen[sample.question_id] = sample.dataset
    return {(each.question_id, number): each for each in samples for number in range(trajectories)}
