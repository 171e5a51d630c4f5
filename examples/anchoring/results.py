"""Settings and results of the demonstration of the observation KL.

A model that reads the number on a page is rewarded for large numbers, whatever the page shows.
Every arm starts from the same weights and gets the same questions in the same order, in real
trajectories. After every update, fixed rows show how far the policy's responses have moved from the
reference (the exact KL over sampled tokens), and how far the hidden states of the images have.
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
    """The term of the loss that holds observations near the reference."""

    NONE = "none"
    """No such term: verl's loss as it is."""
    K3 = "k3"
    """The estimator k3 on the token at a position: the default of `docagent.kl.observation`."""
    EXACT = "exact"
    """The exact divergence over the whole vocabulary."""

    def term(self, coef: float) -> ObservationKl | None:
        """Return the arm's section `docagent.kl.observation`, or None for `NONE`."""
        return None if self is Arm.NONE else ObservationKl(coef=coef, type=KlType(self.value))


@dataclass(frozen=True, slots=True)
class ReaderSettings:
    """Settings of the supervised training of the reader on the oracle's trajectories.

    Args:
        steps: the number of steps of AdamW.
        batch_size: the number of trajectories in a step.
        learning_rate: the learning rate after `rise` steps; in the second half of training it falls
            to a tenth.
        rise: the number of steps over which the learning rate increases linearly.
        seed: the seed of initial weights and batches.
    """

    steps: int = 260
    batch_size: int = 16
    learning_rate: float = 1e-3
    rise: int = 15
    seed: int = 0

    def rate(self, step: int) -> float:
        """Return the learning rate at a step; steps count from 0."""
        rise = min(1.0, (step + 1) / self.rise)
        fall = 1 - 0.9 * max(0.0, (step - self.steps / 2) / (self.steps / 2))
        return self.learning_rate * rise * fall


@dataclass(frozen=True, slots=True)
class AnchoringSettings:
    """Sizes of the demonstration.

    Args:
        task: sizes of documents and questions.
        reader: training of the model that every run starts from.
        updates: the number of updates of the policy in a run.
        trajectories: the number of trajectories of an update; at most one for each word of the
            task.
        learning_rate: the learning rate of AdamW, without weight decay.
        coef: the coefficient of the observation KL.
        beta_gen: the coefficient of verl's KL over sampled tokens, in every arm.
        threads: the number of CPU threads; sums, and so the results, depend on it.
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
    """Measurements that compare a policy with the reference: means over tokens of fixed rows.

    Args:
        update: the number of updates before the measurement.
        response_kl: exact KL over sampled tokens, in nats.
        distance: relative L2 distance of the final hidden states at image placeholders.
        cosine: cosine similarity of these hidden states.
        visual_kl: exact KL of the distributions that follow from these states, in nats.
        visual_k3: the estimator k3 at the placeholders, in nats.
        reward: mean reward of the trajectories that this policy samples.
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
    """The measurements of one run.

    Args:
        arm: the term of its loss.
        seed: the seed of questions and sampling.
        points: one point before each update, and one after the last.
    """

    arm: Arm
    seed: int
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Anchoring:
    """The results of the demonstration.

    Args:
        settings: its sizes.
        right: the share of trajectories in which the model that all runs start from reads the
            number right.
        runs: all runs.
    """

    settings: AnchoringSettings
    right: float
    runs: tuple[Run, ...]


def run_json(run: Run) -> str:
    """Return a run as JSON, which `read_run` reads."""
    return json.dumps(asdict(run), indent=1) + "\n"


def read_run(path: Path) -> Run:
    """Read a file with the JSON of `run_json`.

    Raises:
        UserError: the file does not hold a run.
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
