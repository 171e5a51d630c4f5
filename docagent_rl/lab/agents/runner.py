"""Runs: many trajectories at a time, each stored when it ends, resumed where they were stopped."""

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
    """Numbers that control a run."""

    trajectories: int = 1
    """Trajectories per question."""
    concurrency: int = 8
    """Trajectories played at the same time."""
    attempts: int = 2
    """Attempts at a trajectory whose services fail, before it is recorded as masked."""
    stop_after: int = 16
    """The run stops after services failed for this many trajectories in a row."""


@dataclass(slots=True)
class Runner:
    """Plays questions and stores the trajectories in a folder on which `begin` was called.

    `listener` is called with every trajectory of the run, first those of earlier starts. The player
    stays open afterwards.
    """

    player: Player
    system: str
    folder: RunFolder
    settings: RunSettings = field(default_factory=RunSettings)
    listener: Callable[[Trajectory], None] = lambda _: None
    _failed_in_row: int = 0

    async def run(self, samples: Sequence[Sample]) -> None:
        """Play what has not been played yet, then sort all trajectories by the order of the
        questions.

        A question that cannot be played, and a trajectory for which a service fails, are recorded
        as masked, with the reason. The latter are played again when the run is restarted.

        Raises:
            UserError: questions share an id, another process is writing to the folder, or the
                budget is spent (`BudgetError`); finished trajectories are kept.
            InfrastructureError: the service is down; finished trajectories are kept.
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
                async with one_at_a_time:  # in a thread, since it waits for the disk
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
                f"{self._failed_in_row} trajectories in a row failed, the last one with: "
                f"{trajectory.error}. Finished trajectories are kept; run the same command again "
                "to continue"
            )
        return trajectory


def masked(sample: Sample, number: int, system: str, reason: MaskReason, error: str) -> Trajectory:
    """Return the record of a trajectory that was not played, with the reason."""
    trajectory = new_trajectory(sample, number, system)
    trajectory.status = Status.MASKED.value
    trajectory.end = reason.value
    trajectory.error = error
    return trajectory


def tasks_of(samples: Iterable[Sample], trajectories: int) -> dict[Key, Sample]:
    """Return the sample of each trajectory to be played, by its key, in order.

    Raises:
        UserError: two questions share an id.
    """
    seen: dict[str, str] = {}
    for sample in (samples := list(samples)):
        if sample.question_id in seen:
            raise UserError(
                f"two questions have the id {sample.question_id!r}, one from "
                f"{seen[sample.question_id]} and one from {sample.dataset}: play each benchmark "
                "separately, or give them ids of their own"
            )
        seen[sample.question_id] = sample.dataset
    return {(each.question_id, number): each for each in samples for number in range(trajectories)}
