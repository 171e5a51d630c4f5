"""Two ranks in one run, and the weights that they save."""

from collections.abc import Iterator
from pathlib import Path

import torch

TWO_RANKS = ("trainer.n_gpus_per_node=2", "ray_kwargs.ray_init.num_gpus=2")


def saved_weights(folder: Path) -> Iterator[tuple[str, torch.Tensor]]:
    """Return the names and whole values of a role's saved parameters, from any number of ranks.

    Args:
        folder: of the role in a checkpoint, with verl's files of its ranks.
    """
    files = sorted(
        folder.glob("model_world_size_*_rank_*.pt"), key=lambda f: int(f.stem.rpartition("_")[2])
    )
    shards = [torch.load(file, weights_only=False) for file in files]
    for name in shards[0]:
        parts = [shard[name] for shard in shards]
        places = getattr(parts[0], "placements", ())
        split = [place.dim for place in places if place.is_shard()]
        local = [getattr(part, "_local_tensor", part) for part in parts]
        yield name, torch.cat(local, dim=split[0]) if split else local[0]
