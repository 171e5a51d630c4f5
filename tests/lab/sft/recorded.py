"""Recorded trajectories of the small task, in the forms in which they are stored."""

from dataclasses import replace
from pathlib import Path

from docagent_rl.rollout.trajectory import Status, Trajectory, TrajectoryTurn
from tests.examples.learning.small_task import SmallTask
from trial import ScriptedTrajectory


def copied(trajectory: ScriptedTrajectory) -> Trajectory:
    """Return a copy of the record of a trajectory, as it is read from a file; the caller may change
    it.
    """
    return Trajectory.from_json(trajectory.trajectory.to_json())


def in_texts(trajectory: Trajectory) -> Trajectory:
    """Return the record as the player of a chat endpoint writes it: without ids, and without this
    package's counts.
    """
    turns = [
        replace(turn, token_ids=[], log_probs=[], observation_tokens=0) for turn in trajectory.turns
    ]
    return replace(trajectory, turns=turns, prompt_tokens=0, response_tokens=0)


def about(trajectory: Trajectory, document: str, number: int) -> Trajectory:
    """Return a trajectory whose record names another document."""
    sample = {**trajectory.sample, "doc_id": document}
    return replace(trajectory, sample=sample, number=number)


def masked(trajectory: Trajectory) -> Trajectory:
    return replace(trajectory, status=Status.MASKED.value)


def with_turn(trajectory: Trajectory, **changes) -> Trajectory:
    """Return a trajectory with its last turn changed."""
    *before, last = trajectory.turns
    changed: TrajectoryTurn = replace(last, **changes)
    return replace(trajectory, turns=[*before, changed])


def write(trajectories: list[Trajectory], path: Path) -> Path:
    path.write_text("".join(f"{trajectory.to_json()}\n" for trajectory in trajectories))
    return path


def model_of(task: SmallTask, folder: Path) -> Path:
    """Write a folder with the task's tokenizer and processor, without weights."""
    task.processor.save_pretrained(folder)
    return folder
