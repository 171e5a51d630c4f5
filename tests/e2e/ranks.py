"""Two data-parallel ranks with a rollout replica each, in micro-batches by number of tokens: ALDEN with its
critic and the exact KL on observations; killed behind its first checkpoint, it goes on.

MM-Doc-R1's several rows a trajectory are played by one of the recipes that `recipes.RANKS` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch

from tests.e2e.conftest import Run, add_model
from tests.e2e.custom import SHORT

STEPS = 2
RECIPE = "alden_qwen2_5_vl_7b"
TWO_RANKS = (
    "trainer.n_gpus_per_node=2",
    "ray_kwargs.ray_init.num_gpus=2",
    "actor_rollout_ref.actor.use_dynamic_bsz=true",
    # about two rows
    "actor_rollout_ref.actor.ppo_max_token_len_per_gpu=4096",
    "critic.ppo_max_token_len_per_gpu=4096",
)


def play(folder: Path, workspace: Path, python: Path) -> Run:
    """Kill, resume, finish."""
    add_model(workspace, "alden", python)
    overrides = (
        *SHORT,
        *TWO_RANKS,
        f"trainer.total_training_steps={STEPS}",
        "trainer.save_freq=1",
        "docagent.kl.observation.type=exact",
        "actor_rollout_ref.rollout.top_p=1.0",  # the server's log-probs are then those before truncation
    )
    run = Run(folder, workspace, overrides, python, recipe=RECIPE)
    run.kill_when((run.run_dir / "checkpoints" / "global_step_1" / "manifest.json").is_file)
    run.finish()
    return run


def saved_weights(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Names and whole values of a role's saved parameters, of any number of ranks.

    Args:
        folder: of the role in a checkpoint, with verl's files of its ranks.
    """
    files = sorted(folder.glob("model_world_size_*_rank_*.pt"), key=lambda f: int(f.stem.rpartition("_")[2]))
    shards = [torch.load(file, weights_only=False) for file in files]
    for name in shards[0]:
        parts = [shard[name] for shard in shards]
        places = getattr(parts[0], "placements", ())
        split = [place.dim for place in places if place.is_shard()]
        local = [getattr(part, "_local_tensor", part) for part in parts]
        yield name, torch.cat(local, dim=split[0]) if split else local[0]
