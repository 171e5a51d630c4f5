"""Make a unit's warm start: fine-tune on the script's trajectories, and choose a checkpoint."""

from __future__ import annotations

import asyncio
import json
import shutil
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.base.io import atomic_dir
from docagent_rl.checks.recipe_check import composed_recipe
from docagent_rl.lab.sft.rows import sft_rows, write_sft
from docagent_rl.lab.tiny.model import build_tiny_model
from docagent_rl.rollout.resources import TrajectoryResources
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.samples.parquet import read_parquet
from docagent_rl.samples.sample import Sample
from learning.process import SFT_MODULE, Trainer
from learning.warm_start import checkpoint_steps, choose
from proof.plan import base_overrides, sft_command
from proof.scores import right
from proof.tasks.base import Part, ProofTask, Sizes
from proof.unit import ProofPaths, Unit
from trial import ScriptedTrajectory, Setting, play_scripted, play_trial

CHOICE = "warm_start.json"
"""The file beside the weights that records how the checkpoint was chosen."""


def make_warm_start(unit: Unit, paths: ProofPaths, python: Path | None = None) -> dict[str, Any]:
    """Make the model that a unit begins with; an existing one is reused.

    Args:
        unit: the unit.
        paths: the paths of the system; the workspace must have been made.
        python: the interpreter of the trainer; by default this one.

    Returns:
        how the model was chosen: `step`, `ceiling`, `dev_accuracy` by step, `sft_steps` and
        `sft_every` of the task, `rows`, `seconds`.

    Raises:
        InfrastructureError: an answer of the script is not right, the trainer failed, or every
            checkpoint reaches the ceiling.
        UserError: there is a model that was chosen with other sizes.
    """
    target = paths.warm_start(unit)
    task = unit.task
    if (target / CHOICE).is_file():
        return _read_choice(target / CHOICE, task.sizes)

    began = time.monotonic()
    folder = target.with_name(f"{target.name}-sft")
    shutil.rmtree(folder, ignore_errors=True)
    model = build_tiny_model(folder / "model", seed=unit.seed)
    processor = processor_of(model)
    ablation = unit.ablation if unit.own_warm_start else None
    setting = setting_of(task, paths, ablation)

    samples = read_parquet(paths.task.data(Part.SFT))
    rows = []
    for played in script_trajectories(task, setting, processor, samples, ablation):
        rows += sft_rows(played.trajectory, played.ledgers)
    rows_file = write_sft(rows, folder / "rows.parquet", processor.tokenizer)

    checkpoints = folder / "run" / "checkpoints"
    dev = read_parquet(paths.task.data(Part.DEV))

    @cache
    def measure(step: int) -> float:
        return accuracy(task, setting, _weights(checkpoints, step), dev, unit.seed)

    def train(steps: int) -> None:
        command = sft_command(task, rows_file, model, paths, folder / "run", steps)
        Trainer(SFT_MODULE, command, folder, python).run()

    last_step = _train(task.sizes, train, measure)
    chosen_step, measured = choose(checkpoint_steps(checkpoints), measure, task.sizes.ceiling)
    choice = {
        "step": chosen_step,
        "ceiling": task.sizes.ceiling,
        "sft_steps": task.sizes.sft_steps,
        "sft_every": task.sizes.sft_every,
        "dev_accuracy": measured | {last_step: measure(last_step)},
        "rows": len(rows),
        "seconds": round(time.monotonic() - began, 1),
    }
    with atomic_dir(target) as unfinished:
        shutil.copytree(_weights(checkpoints, chosen_step), unfinished, dirs_exist_ok=True)
        (unfinished / CHOICE).write_text(json.dumps(choice, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(checkpoints)
    return choice


def _train(sizes: Sizes, train: Callable[[int], None], measure: Callable[[int], float]) -> int:
    """Train for half of the steps, and for the other half if the ceiling was not reached.

    Returns:
        the last step.
    """
    half = sizes.sft_steps // 2
    train(half)
    if measure(half) >= sizes.ceiling:
        return half
    train(sizes.sft_steps)
    return sizes.sft_steps


def _read_choice(file: Path, sizes: Sizes) -> dict[str, Any]:
    choice = json.loads(file.read_text(encoding="utf-8"))
    if not sizes.chose(choice):
        raise UserError(
            f"{file.parent} was chosen with other sizes; move it away, or choose another --out"
        )
    return choice


def setting_of(task: ProofTask, paths: ProofPaths, ablation: str | None = None) -> Setting:
    """Return the recipe's settings, so that script and trainer differ in nothing but the policy."""
    unused = paths.folder / "unused"
    return Setting.of(composed_recipe(task.recipe, base_overrides(task, paths, unused, ablation)))


def script_trajectories(
    task: ProofTask,
    setting: Setting,
    processor: Any,
    samples: Sequence[Sample],
    ablation: str | None = None,
) -> list[ScriptedTrajectory]:
    """Make the script's trajectories, in the order of the questions.

    Raises:
        InfrastructureError: an answer is not right, so that task and environment must contradict
            each other.
    """
    resources = TrajectoryResources(
        setting.config, processor.tokenizer, processor, setting.template
    )

    async def play() -> list[ScriptedTrajectory]:
        scripted = []
        for sample in samples:
            played = await play_scripted(
                sample,
                task.player(sample, ablation),
                env=resources.environment(validate=False),
                system=resources.system.name,
                codec=resources.codec,
                encoder=resources.encoder,
                limits=setting.limits,
            )
            # an ablation may lack what a right answer needs
            if ablation is None and not right(played.trajectory):
                turns = [turn.text for turn in played.trajectory.turns]
                raise InfrastructureError(
                    f"the script's answer to {sample.question_id} is not right; its turns: {turns}"
                )
            scripted.append(played)
        return scripted

    return asyncio.run(play())


def accuracy(
    task: ProofTask, setting: Setting, model: Path, samples: Sequence[Sample], seed: int
) -> float:
    """Sample trajectories with a model, and return the share with the right answer."""
    played = sampled(setting, model, samples, trajectories=task.sizes.dev_trajectories, seed=seed)
    return sum(map(right, played)) / len(played)


def sampled(
    setting: Setting, model: Path, samples: Sequence[Sample], *, trajectories: int, seed: int
) -> list[Trajectory]:
    """Sample trajectories with a model, by transformers in this process."""
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

    weights = Qwen2_5_VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32)
    return play_trial(
        setting,
        weights,
        processor_of(model),
        samples,
        trajectories=trajectories,
        together=64,
        seed=seed,
    )


def processor_of(model: Path) -> Any:
    """Load the processor of a model."""
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(model)


def _weights(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"global_step_{step}" / "huggingface"
