"""A short form of `PYTHONPATH=examples python -m learning`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from learning.choices import Arm, Estimator
from learning.demonstration import demonstrate
from learning.plan import LearnPaths, LearnSettings, RunKey
from learning.results import RunResult
from learning.task import TaskSettings

SETTINGS = LearnSettings(
    task=TaskSettings(train=64, dev=8, held_out=32), sft_steps=120, sft_every=5, ceiling=0.25, steps=20
)
KEY = RunKey(Estimator.GRPO, Arm.REWARD, seed=0)


@dataclass(frozen=True)
class Learned:
    """A finished demonstration."""

    paths: LearnPaths
    python: Path
    result: RunResult


def play(root: Path, python: Path) -> Learned:
    """GRPO on its own rewards, one seed; what is done in the folder is not done again."""
    (result,) = demonstrate(
        root, estimators=[KEY.estimator], seeds=[KEY.seed], arms=[KEY.arm], settings=SETTINGS, python=python
    )
    return Learned(LearnPaths(root), python, result)
