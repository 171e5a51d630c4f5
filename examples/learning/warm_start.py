"""Make the warm start: fine-tune on the oracle's trajectories, and choose a checkpoint."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import InfrastructureError
from docagent_rl.base.io import atomic_dir, remove_leftovers
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.sft.rows import SftRow, sft_rows, write_sft
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.sample import Sample
from learning.oracle import oracle
from learning.plan import RECIPE, LearnPaths, LearnSettings, base_overrides, sft_overrides
from learning.process import SFT_MODULE, Trainer
from learning.results import is_right
from learning.task import Part
from trial import Setting, play_scripted, play_trial

CHOICE = "warm_start.json"
"""The file beside the weights that records how the checkpoint was chosen."""

DEV_TRAJECTORIES = 2
"""The number of trajectories that are sampled for each question of `Part.DEV`."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The accuracy of a checkpoint of the supervised trainer.

    Args:
        step: the step of the trainer.
        path: the folder with the model, which transformers can load.
        accuracy: the share of sampled trajectories of `Part.DEV` with the right answer.
    """

    step: int
    path: Path
    accuracy: float


def make_warm_start(
    paths: LearnPaths,
    settings: LearnSettings,
    seed: int,
    *,
    on_wait: Callable[[], None] = lambda: None,
    python: Path | None = None,
) -> Path:
    """Make the model that reinforcement learning starts from; an existing one is reused.

    Args:
        paths: the paths of the demonstration; the task must have been made.
        settings: the length of training, and the ceiling of the accuracy.
        seed: the seed of the initial weights.
        on_wait: called repeatedly during training.
        python: the interpreter of the trainer; by default this one.

    Returns:
        the folder with the model and `CHOICE`.

    Raises:
        InfrastructureError: the trainer failed, or no checkpoint is weak enough.
    """
    target = paths.warm_start(seed)
    if (target / CHOICE).is_file():
        remove_leftovers(target)
        return target

    folder = paths.seed(seed) / "sft"
    model = build_tiny_model(folder / "model", seed=seed)
    processor = _processor(model)
    setting = play_setting(paths)
    rows = oracle_rows(setting, processor, read_parquet(paths.task.data(Part.SFT)))
    rows_file = folder / "rows.parquet"
    write_sft(rows, rows_file, processor.tokenizer)

    checkpoints = folder / "checkpoints"
    shutil.rmtree(checkpoints, ignore_errors=True)
    overrides = sft_overrides(rows_file, model, checkpoints, paths.task.store, settings)
    Trainer(SFT_MODULE, overrides, folder, python).run(on_wait)

    samples = read_parquet(paths.task.data(Part.DEV))
    chosen_step, measured = choose(
        checkpoint_steps(checkpoints),
        lambda step: accuracy(setting, _weights(checkpoints, step), samples, seed),
        settings.ceiling,
    )
    choice = {"step": chosen_step, "ceiling": settings.ceiling, "dev_accuracy": measured}
    with atomic_dir(target) as unfinished:
        shutil.copytree(_weights(checkpoints, chosen_step), unfinished, dirs_exist_ok=True)
        (unfinished / CHOICE).write_text(json.dumps(choice, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(checkpoints)
    return target


def play_setting(paths: LearnPaths) -> Setting:
    """Return the recipe's settings, so that oracle and trainer differ in nothing but the policy."""
    return Setting.of(composed_recipe(RECIPE, base_overrides(paths, paths.root / "unused")))


def oracle_rows(setting: Setting, processor: Any, samples: Sequence[Sample]) -> list[SftRow]:
    """Make the oracle's trajectories, and return them as training rows in the questions' order.

    Raises:
        InfrastructureError: the oracle's answer is not right, so that task and environment must
            contradict each other.
    """
    resources = TrajectoryResources(
        setting.config, processor.tokenizer, processor, setting.template
    )

    async def play() -> list[SftRow]:
        rows: list[SftRow] = []
        for sample in samples:
            played = await play_scripted(
                sample,
                oracle,
                env=resources.environment(validate=False),
                system=resources.system.name,
                codec=resources.codec,
                encoder=resources.encoder,
                limits=setting.limits,
            )
            reward = played.trajectory.reward
            if reward < 1.0:
                raise InfrastructureError(
                    f"the oracle's reward for {sample.question_id} is {reward}; expected 1"
                )
            rows += sft_rows(played.trajectory, played.ledgers)
        return rows

    return asyncio.run(play())


def checkpoint_steps(folder: Path) -> list[int]:
    """Return the steps of the checkpoints in a folder of verl's trainer, ascending."""
    return sorted(int(path.name.rpartition("_")[2]) for path in folder.glob("global_step_*"))


def choose(
    steps: Sequence[int], measure: Callable[[int], float], ceiling: float
) -> tuple[int, dict[int, float]]:
    """Find the last checkpoint before the first one that reaches the ceiling, by bisection.

    Apart from noise, the accuracy rises with the steps, so a few measurements are enough.

    Args:
        steps: the steps of the checkpoints, ascending.
        measure: returns the accuracy of a step's checkpoint, in `[0, 1]`.
        ceiling: the accuracy that the warm start must not reach.

    Returns:
        the step that was chosen, and the measured accuracies by step.

    Raises:
        InfrastructureError: there is no checkpoint, or the first one reaches the ceiling.
    """
    measured: dict[int, float] = {}
    low = 0
    high = len(steps)
    while low < high:
        middle = (low + high) // 2
        measured[steps[middle]] = measure(steps[middle])
        if measured[steps[middle]] < ceiling:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        raise InfrastructureError(
            f"no checkpoint is right less often than {100 * ceiling:g} % of the time: {measured}"
        )
    return steps[low - 1], dict(sorted(measured.items()))


def accuracy(setting: Setting, model: Path, samples: Sequence[Sample], seed: int) -> float:
    """Sample trajectories with a model, and return the share with the right answer."""
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

    weights = Qwen2_5_VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32)
    played = play_trial(
        setting,
        weights,
        _processor(model),
        samples,
        trajectories=DEV_TRAJECTORIES,
        together=64,
        seed=seed,
    )
    return sum(map(is_right, played)) / len(played)


def _weights(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"global_step_{step}" / "huggingface"


def _processor(model: Path) -> Any:
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(model)
