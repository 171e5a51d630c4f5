"""The hold of the observation KL: the choices and results of a demonstration.

A model that reads the number on a page is paid for large numbers, whatever the page shows. Every
arm starts from the same weights and is asked the same questions in the same order, in real
trajectories. After every update it is measured on fixed rows how far the policy's responses have
moved from the reference (the exact KL over sampled tokens), and how far the hidden states of the
images have.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.losses.config import KlType, ObservationKl
from learning.task import TaskSettings


class Arm(StrEnum):
    """The term by which the loss holds observations."""

    NONE = "none"
    """verl's loss as it is."""
    K3 = "k3"
    """The estimator on the token that stands there: the default of `docagent.kl.observation`."""
    EXACT = "exact"
    """The divergence over the whole vocabulary."""

    def term(self, coef: float) -> ObservationKl | None:
        """The section `docagent.kl.observation`."""
        return None if self is Arm.NONE else ObservationKl(coef=coef, type=KlType(self.value))


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Supervised training on the oracle's trajectories.

    Args:
        steps: of AdamW.
        batch_size: trajectories a step.
        learning_rate: after `rise` steps; over the second half it falls to a tenth.
        rise: steps of linear increase.
        seed: of initial weights and batches.
    """

    steps: int = 260
    batch_size: int = 16
    learning_rate: float = 1e-3
    rise: int = 15
    seed: int = 0

    def rate(self, step: int) -> float:
        """The learning rate at a step, counted from 0."""
        rise = min(1.0, (step + 1) / self.rise)
        fall = 1 - 0.9 * max(0.0, (step - self.steps / 2) / (self.steps / 2))
        return self.learning_rate * rise * fall


@dataclass(frozen=True, slots=True)
class AnchoringSettings:
    """Sizes of the demonstration.

    Args:
        task: pages and questions.
        reader: how the model comes about that every run starts from.
        updates: of the policy in a run.
        trajectories: sampled for an update, at most one for each word of the task.
        learning_rate: of AdamW, without weight decay.
        coef: of the observation KL.
        beta_gen: of verl's KL over sampled tokens, in every arm.
        threads: of the CPU; sums, and so the results, depend on their number.
    """

    task: TaskSettings = field(
        default_factory=lambda: TaskSettings(
            digits=1, pages=4, sft=60, train=24, dev=1, held_out=8, unseen=0.0
        )
    )
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    updates: int = 16
    trajectories: int = 16
    learning_rate: float = 4e-4
    coef: float = 0.3
    beta_gen: float = 0.001
    threads: int = 1


@dataclass(frozen=True, slots=True)
class Point:
    """A policy between two updates, against the reference; means over the tokens of fixed rows.

    Args:
        update: updates so far.
        response_kl: exact KL over sampled tokens, in nats.
        distance: relative L2 distance of the final hidden states at image placeholders.
        cosine: their cosine similarity.
        visual_kl: exact KL of the distributions read from them, in nats.
        visual_k3: what the estimator k3 sees at placeholders, in nats.
        reward: mean reward of the trajectories that this policy played.
    """

    update: float
    response_kl: float
    distance: float
    cosine: float
    visual_kl: float
    visual_k3: float
    reward: float


@dataclass(frozen=True, slots=True)
class Run:
    """One run.

    Args:
        arm: its loss.
        seed: of questions and sampling.
        points: one before each update, and one after the last.
    """

    arm: Arm
    seed: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Anchoring:
    """The demonstration.

    Args:
        settings: its sizes.
        right: share of its own trajectories in which the model that all runs start from reads the
            number right.
        runs: all runs.
    """

    settings: AnchoringSettings
    right: float
    runs: tuple[Run, ...]


def run_json(run: Run) -> str:
    """JSON for `read_run`."""
    return json.dumps(asdict(run), indent=1) + "\n"


def read_run(path: Path) -> Run:
    """Read a file of `run_json`.

    Raises:
        UserError: not such a file.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return Run(Arm(data["arm"]), int(data["seed"]), _points(data["points"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a run; delete it: {type(error).__name__}: {error}") from error


def _points(entries: Sequence[Mapping[str, Any]]) -> tuple[Point, ...]:
    return tuple(
        Point(**{name: float(value) for name, value in entry.items()}) for entry in entries
    )
