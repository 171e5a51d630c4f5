"""Parts of commands that train on one machine, as bash reads them."""

import shlex
from pathlib import Path

from docagent_rl.checkpoints.manifest import TRACKER

SHORT_SFT = (
    "trainer.total_training_steps=2 trainer.save_freq=2 trainer.test_freq=-1 "
    "data.train_batch_size=2"
)
"""Overrides of supervised fine-tuning with a tiny model and few rows."""
SHORT_ROWS = 2560
"""The longest row that the CPU profile of supervised fine-tuning takes, in tokens."""
SHORT_SHARE = 0.3
"""The share of rows for validation where there are few."""


def rl_command(recipe: str) -> str:
    """Return the command that trains by reinforcement learning."""
    return f"python -m verl.trainer.main_ppo --config-name {recipe}"


def fine_tuning_command(recipe: str, gpus: int) -> str:
    """Return the command that fine-tunes on so many GPUs; on the CPU, with a tiny model, if 0."""
    program = f"-m verl.trainer.sft_trainer --config-name {recipe}"
    if not gpus:
        return f"python {program} +profile=cpu {SHORT_SFT}"
    launcher = f"torchrun --standalone --nproc-per-node {gpus}"
    return f"{launcher} {program} trainer.n_gpus_per_node={gpus}"


def rows_command(
    trajectories: Path, model: str, store: Path, out: Path, *, share: float, longest: int
) -> str:
    """Return the command that makes rows of trajectories; `model` is a word of bash."""
    return (
        f"docagent-rl data sft {shlex.quote(str(trajectories))} --model {model} "
        f"--store {shlex.quote(str(store))} --out {shlex.quote(str(out))} "
        f"--val-fraction {share:g} --by question --max-length {longest} --force"
    )


def tracker(run: Path) -> Path:
    """Return the file that names the last checkpoint of a run."""
    return run / "checkpoints" / TRACKER


def exported_model(run: Path) -> str:
    """Return the last model that a supervised run exported, as bash finds it."""
    folder = shlex.quote(str(run / "checkpoints"))
    return f"{folder}/global_step_$(cat {folder}/{TRACKER})/huggingface"


def start_override(run: Path, workspace: Path) -> str:
    """Return the override by which RL starts from that model, as bash reads it.

    It names the workspace by its key, since Hydra does not take every path.
    """
    folder = f"${{docagent.workspace}}/{run.relative_to(workspace)}/checkpoints"
    number = f"$(cat {shlex.quote(str(tracker(run)))})"
    key = shlex.quote(f"actor_rollout_ref.model.path={folder}/global_step_")
    return f"{key}{number}/huggingface"


def node_overrides(gpus: int, tensor_parallel: int) -> list[str]:
    """Return the overrides by which a run takes so many GPUs of one node."""
    return [
        "trainer.nnodes=1",
        f"trainer.n_gpus_per_node={gpus}",
        *engine_overrides(gpus, tensor_parallel),
    ]


def engine_overrides(gpus: int, tensor_parallel: int) -> list[str]:
    """Return the override that a server spans no more GPUs than there are, where it would."""
    most = max(gpus, 1)
    if tensor_parallel <= most:
        return []
    return [f"actor_rollout_ref.rollout.tensor_model_parallel_size={most}"]


RETRIEVER_ON_GPU = "docagent.retriever.service.num_gpus=1 docagent.retriever.encoder.device=cuda"
"""Overrides of a run whose retriever has a GPU of its own."""
