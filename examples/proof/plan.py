"""Compose the command lines of the trainers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString

from proof.tasks.base import ProofTask
from proof.unit import SHUFFLED, ProofPaths, Unit

SHUFFLED_MODULE = "learning.shuffled"
"""The module that registers `shuffled_<estimator>`."""
DEFAULT_SFT = "sft_vrag_rl_qwen2_5_vl_7b"
"""The recipe of supervised training for systems whose papers have no supervised stage."""
TINY_FAMILY = "qwen2_5_vl"
"""The family of the tiny models of all systems."""
_ABLATION_GROUP = "+ablations="
"""The beginning of an override that adds a file of the Hydra group of ablations."""


def quoted(key: str, path: Path) -> str:
    """Return an override with a quoted path: unquoted, Hydra's grammar allows few characters."""
    return f"{key}={QuotedString(str(path), Quote.single).with_quotes()}"


def base_overrides(
    task: ProofTask, paths: ProofPaths, run_dir: Path, ablation: str | None = None
) -> list[str]:
    """Return the overrides that every composition of the recipe needs.

    An ablation that is a Hydra group comes before the profile.
    """
    overrides = task.ablations[ablation].overrides if ablation else ()
    groups = [each for each in overrides if each.startswith(_ABLATION_GROUP)]
    values = [each for each in overrides if not each.startswith(_ABLATION_GROUP)]
    return [
        "hydra.searchpath=[pkg://proof]",
        *groups,
        "+profile=cpu",
        f"+recipe={task.system}",
        quoted("docagent.workspace", paths.task.workspace),
        quoted("docagent.run_dir", run_dir),
        *values,
    ]


def rl_overrides(unit: Unit, paths: ProofPaths, estimator: str) -> list[str]:
    """Return the overrides of `python -m verl.trainer.main_ppo --config-name <recipe>`.

    Args:
        unit: the unit that is trained.
        paths: the paths of the system.
        estimator: `algorithm.adv_estimator` of the composed recipe; only the control needs it.
    """
    model = paths.warm_start(unit)
    overrides = [
        *base_overrides(unit.task, paths, paths.run(unit) / "run", unit.ablation),
        quoted("actor_rollout_ref.model.path", model),
        quoted("critic.model.path", model),
        # whose tiny model learns in place of the recipe's
        f"docagent.model_family={TINY_FAMILY}",
        f"data.seed={unit.seed}",
        f"actor_rollout_ref.rollout.seed={unit.seed}",
        f"trainer.total_training_steps={unit.steps}",
        f"trainer.test_freq={unit.steps}",
        f"trainer.experiment_name={unit.system}-{unit.name}",
    ]
    if unit.arm == SHUFFLED:
        overrides += [f"algorithm.adv_estimator=shuffled_{estimator}"]
        overrides += [f"docagent.modules=[{SHUFFLED_MODULE}]"]
    return overrides


def sft_command(
    task: ProofTask, rows: Path, model: Path, paths: ProofPaths, folder: Path, steps: int
) -> Sequence[str]:
    """Return the arguments of `python -m verl.trainer.sft_trainer`.

    A tiny model begins with random weights, so its vision tower is trained, too, and the learning
    rate is high.

    Args:
        task: the task of the system.
        rows: the file with the script's trajectories as training rows.
        model: the initial model.
        paths: the paths of the system.
        folder: the run's folder; training continues from the last checkpoint in `checkpoints`.
        steps: the step after which training ends.
    """
    return [
        "--config-name",
        task.sft_recipe or DEFAULT_SFT,
        "+profile=sft_cpu",
        f"docagent.system={task.system}",
        "docagent.freeze_vision_tower=false",
        quoted("docagent.workspace", paths.task.workspace),
        quoted("docagent.run_dir", folder),
        quoted("model.path", model),
        quoted("data.train_files", rows),
        "data.val_files=null",
        "data.train_batch_size=32",
        "data.micro_batch_size_per_gpu=32",
        "data.use_dynamic_bsz=false",
        "optim.lr=1e-3",
        "optim.lr_scheduler_type=constant",
        "optim.lr_warmup_steps=20",
        "checkpoint.save_contents=[hf_model,model,optimizer,extra]",
        "trainer.total_epochs=1000",
        f"trainer.total_training_steps={steps}",
        f"trainer.save_freq={task.sizes.sft_every}",
        "trainer.test_freq=-1",
        "trainer.max_ckpt_to_keep=null",
    ]
