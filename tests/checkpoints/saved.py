"""Checkpoints with small tensors, in the layout of verl's FSDP trainer."""

import json
from pathlib import Path

import torch

from docagent_rl.checkpoints.manifest import (
    CheckpointCheck,
    mark_unfinished,
    step_folder,
    write_manifest,
    write_tracker,
)


def save_part(folder: Path, *, ranks: int = 1, size: int = 1000, seed: int = 0) -> None:
    """Save an actor or a critic."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(seed)
    for rank in range(ranks):
        for kind in ("model", "optim", "extra_state"):
            tensors = {"w": torch.rand(size, generator=generator)}
            torch.save(tensors, folder / f"{kind}_world_size_{ranks}_rank_{rank}.pt")
    (folder / "huggingface").mkdir(exist_ok=True)
    (folder / "huggingface" / "config.json").write_text("{}")
    (folder / "fsdp_config.json").write_text(json.dumps({"FSDP_version": 2, "world_size": ranks}))


def save(
    root: Path,
    step: int,
    *,
    ranks: int = 1,
    size: int = 1000,
    critic: bool = False,
    check: CheckpointCheck | None = CheckpointCheck.FULL,
    tracked: bool = True,
) -> Path:
    """Save a checkpoint in the order of `CheckpointsMixin`; with `check` None it has no manifest,
    as from verl alone.
    """
    folder = step_folder(root, step)
    if check is not None:
        mark_unfinished(folder)
    save_part(folder / "actor", ranks=ranks, size=size, seed=step)
    if critic:
        save_part(folder / "critic", ranks=ranks, size=size, seed=step)
    torch.save({"step": step, "positions": list(range(2000))}, folder / "data.pt")
    if check is not None:
        write_manifest(folder, check)
    if tracked:
        write_tracker(root, step)
    return folder


def flip(path: Path, position: int = 300) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def cut(path: Path, part: float = 0.5) -> None:
    """Truncate a file."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * part)])
