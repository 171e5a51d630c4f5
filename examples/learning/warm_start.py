"""The warm start: the oracle's sessions, verl's supervised trainer, and the checkpoint to begin with."""

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
from docagent_rl.checks.recipe_check import composed
from docagent_rl.lab.sft.rows import SftRow, sft_rows, write_sft
from docagent_rl.lab.sft.scripted import play_scripted
from docagent_rl.lab.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.records.parquet import read_parquet
from docagent_rl.records.record import Record
from docagent_rl.rollout.resources import SessionResources
from learning.oracle import oracle
from learning.plan import RECIPE, LearnPaths, LearnSettings, base_overrides, sft_overrides
from learning.process import SFT_MODULE, Trainer
from learning.task import Part
from trial import Setting, play_trial

RECORD = "warm_start.json"
"""How the checkpoint was chosen, kept beside its weights."""

DEV_SESSIONS = 2
"""Sampled sessions of each question of `Part.DEV`."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint of the supervised trainer can do.

    Args:
        step: of the trainer.
        path: a model as transformers loads it.
        accuracy: share of sampled sessions about `Part.DEV` with the right answer.
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
    """Make the model that reinforcement learning starts from; one that is there is left alone.

    Args:
        paths: with the task already made.
        settings: how long to train, and when to stop.
        seed: of the initial weights.
        on_wait: called again and again while training.
        python: interpreter of the trainer; by default this one.

    Returns:
        A folder with a model, and `RECORD`.

    Raises:
        InfrastructureError: the trainer failed, or no checkpoint is weak enough.
    """
    target = paths.warm_start(seed)
    if (target / RECORD).is_file():
        remove_leftovers(target)
        return target
    folder = paths.seed(seed) / "sft"
    model = build_tiny_qwen2_5_vl(folder / "model", seed=seed)
    setting = play_setting(paths)
    rows = folder / "rows.parquet"
    processor = _processor(model)
    write_sft(
        oracle_rows(setting, processor, read_parquet(paths.task.data(Part.SFT))), rows, processor.tokenizer
    )
    checkpoints = folder / "checkpoints"
    shutil.rmtree(checkpoints, ignore_errors=True)
    overrides = sft_overrides(rows, model, checkpoints, paths.task.store, settings)
    Trainer(SFT_MODULE, overrides, folder, python).run(on_wait)
    records = read_parquet(paths.task.data(Part.DEV))
    chosen, measured = choose(
        checkpoint_steps(checkpoints),
        lambda step: accuracy(setting, _weights(checkpoints, step), records, seed),
        settings.ceiling,
    )
    record = {"step": chosen, "ceiling": settings.ceiling, "dev_accuracy": measured}
    with atomic_dir(target) as made:
        shutil.copytree(_weights(checkpoints, chosen), made, dirs_exist_ok=True)
        (made / RECORD).write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    shutil.rmtree(checkpoints)
    return target


def play_setting(paths: LearnPaths) -> Setting:
    """How the recipe plays: the oracle's sessions and the trainer's differ in nothing but the policy."""
    return Setting.of(composed(RECIPE, base_overrides(paths, paths.root / "unused")))


def oracle_rows(setting: Setting, processor: Any, records: Sequence[Record]) -> list[SftRow]:
    """The oracle's sessions as training rows, in the order of the questions.

    Raises:
        InfrastructureError: the oracle's answer is not right, so task and environment do not fit each other.
    """
    resources = SessionResources(setting.config, processor.tokenizer, processor, setting.template)

    async def play() -> list[SftRow]:
        rows: list[SftRow] = []
        for record in records:
            session = await play_scripted(
                record,
                oracle,
                env=resources.environment(validate=False),
                system=resources.system.name,
                codec=resources.codec,
                encoder=resources.encoder,
                limits=setting.limits,
            )
            if session.trajectory.reward < 1.0:
                reward = session.trajectory.reward
                raise InfrastructureError(
                    f"the oracle earns {reward} for {record.question_id}, 1 is expected"
                )
            rows += sft_rows(session.trajectory, session.ledgers)
        return rows

    return asyncio.run(play())


def checkpoint_steps(folder: Path) -> list[int]:
    """Steps of the checkpoints in a folder of verl's trainer, ascending."""
    return sorted(int(path.name.rpartition("_")[2]) for path in folder.glob("global_step_*"))


def choose(
    steps: Sequence[int], measure: Callable[[int], float], ceiling: float
) -> tuple[int, dict[int, float]]:
    """The last checkpoint before the first one that reaches the ceiling, by bisection.

    Accuracy rises with the steps but for noise, so a handful of measurements is enough.

    Args:
        steps: ascending.
        measure: accuracy at a step, in `[0, 1]`.
        ceiling: accuracy that the warm start must not reach.

    Returns:
        The step, and what was measured by step.

    Raises:
        InfrastructureError: there is no checkpoint, or the first one reaches the ceiling.
    """
    measured: dict[int, float] = {}
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        measured[steps[middle]] = measure(steps[middle])
        if measured[steps[middle]] < ceiling:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        raise InfrastructureError(
            f"no checkpoint is right less than {100 * ceiling:g} % of the time: {measured}"
        )
    return steps[low - 1], dict(sorted(measured.items()))


def accuracy(setting: Setting, model: Path, records: Sequence[Record], seed: int) -> float:
    """Share of sampled sessions with the right answer."""
    import torch
    from transformers import Qwen2_5_VLForConditionalGeneration

    weights = Qwen2_5_VLForConditionalGeneration.from_pretrained(model, dtype=torch.float32)
    played = play_trial(
        setting, weights, _processor(model), records, sessions=DEV_SESSIONS, together=64, seed=seed
    )
    return sum(trajectory.metrics["reward/outcome"] for trajectory in played) / len(played)


def _weights(checkpoints: Path, step: int) -> Path:
    return checkpoints / f"global_step_{step}" / "huggingface"


def _processor(model: Path) -> Any:
    from transformers import AutoProcessor

    return AutoProcessor.from_pretrained(model)
