"""A tiny Qwen2.5-VL on two ranks that share each row's positions (Ulysses), against padded rows on each.

Usage: ulysses_engine.py FOLDER, with the environment of one of two workers. Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.training.attention.packed_engine import (  # first: it sets the environment
    FLASH,
    PADDED,
    gradients,
    outputs,
)

# ruff: isort: split
import torch
from torch import Tensor, distributed
from verl.utils.distributed import initialize_global_process_group_ray

from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from tests.training.workers.frozen_engine import batch, worker


def all_to_all(
    received: list[Tensor], sent: list[Tensor], group: distributed.ProcessGroup | None = None, **_: object
) -> None:
    """What gloo lacks, by sending everything to everyone."""
    everything = [torch.empty_like(torch.stack(sent)) for _ in received]
    distributed.all_gather(everything, torch.stack(sent), group=group)
    for place, tensors in zip(received, everything, strict=True):
        place.copy_(tensors[distributed.get_rank(group)])


def main(folder: Path) -> None:
    initialize_global_process_group_ray()
    distributed.all_to_all = all_to_all
    rank = distributed.get_rank()
    path = folder / "model"
    if rank == 0:
        build_tiny_qwen2_5_vl(path, seed=0)
    distributed.barrier()
    settings = json.loads((path / "config.json").read_text())
    data = batch(settings["text_config"]["vocab_size"], settings["image_token_id"])
    padded = worker(path, **PADDED | {"rows": 2})
    wanted, expected = outputs(padded, data, "log_probs"), gradients(padded, data, copies=2)
    shared = worker(path, rows=2, frozen=False, model=FLASH, engine={"ulysses_sequence_parallel_size": 2})
    found, given = outputs(shared, data, "log_probs"), gradients(shared, data)
    # the loss of each rank has its own factor: directions are compared
    names = sorted(expected)
    own, other = (torch.cat([part[name].flatten().double() for name in names]) for part in (given, expected))
    scale = float(own @ other / (other @ other))
    if rank:
        distributed.destroy_process_group()
        return
    report = {
        "values": float((found - wanted).abs().max()),
        "spread": float(wanted.std()),
        "scale": scale,
        "error": float((own / scale - other).norm() / other.norm()),
    }
    print(json.dumps(report))
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
