"""Command lines of the trainers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.types import Quote, QuotedString

from proof.tasks.base import ProofTask
from proof.unit import SHUFFLED, ProofPaths, Unit

SHUFFLED_MODULE = "learning.shuffled"
"""Registers `shuffled_<estimator>`."""
DEFAULT_SFT = "sft_vrag_rl_qwen2_5_vl_7b"
"""The base of supervised training for systems whose papers have none."""
_GROUP = "+ablations="


def quoted(key: str, path: Path) -> str:
    """An override with a path: Hydra's grammar takes few characters without quotes."""
    return f"{key}={QuotedString(str(path), Quote.single).with_quotes()}"


def base_overrides(
    task: ProofTask, paths: ProofPaths, run_dir: Path, ablation: str | None = None
) -> list[str]:
    """Return what every composition needs; an ablation that is a group stands before the
    profile.
    """
    own = list(task.ablations[ablation].overrides) if ablation else []
    return [
        "hydra.searchpath=[pkg://proof]",
        *(each for each in own if each.startswith(_GROUP)),
        "+profile=cpu",
        f"+recipe={task.system}",
        quoted("docagent.workspace", paths.task.workspace),
        quoted("docagent.run_dir", run_dir),
        *(each for each in own if not each.startswith(_GROUP)),
    ]


def rl_overrides(unit: Unit, paths: ProofPaths, estimator: str) -> list[str]:
    """Overrides of `python -m verl.trainer.main_ppo --config-name <recipe>`.

    Args:
        unit: what is run.
        paths: where.
        estimator: `algorithm.adv_estimator` of the recipe as composed; only the control is told it.
    """
    model = paths.warm_start(unit)
    overrides = [
        *base_overrides(unit.task, paths, paths.run(unit) / "run", unit.ablation),
        quoted("actor_rollout_ref.model.path", model),
        quoted("critic.model.path", model),
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
    """Arguments of `python -m verl.trainer.sft_trainer`.

    A tiny model begins with random weights, so that its tower is trained too and its rate is high.

    Args:
        task: whose.
        rows: of the script's trajectories.
        model: the model to begin with.
        paths: of the system.
        folder: of the run; `checkpoints` below it. It goes on after the last one that is there.
        steps: after which it ends.
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
