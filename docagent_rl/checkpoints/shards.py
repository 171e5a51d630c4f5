"""Read the shards of verl's FSDP2 checkpoints, memory-mapped and without unpickling objects."""

import pickle
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.distributed.tensor import DTensor

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.sharding import Sharding, saved_version_and_ranks

_ARRAYS: list[Any] = [np.empty(0).__reduce__()[0], np.ndarray, np.dtype, type(np.dtype(np.uint32))]
"""What numpy's random state is pickled with; objects inside an array are refused all the same."""


class SavedShards:
    """The files of one kind in a folder, one for each rank that saved them; opened when needed."""

    def __init__(self, folder: Path, kind: str, ranks: int) -> None:
        self._folder = folder
        self._kind = kind
        self.ranks = ranks
        self._opened: dict[int, dict[str, Any]] = {}

    def of(self, rank: int) -> dict[str, Any]:
        """Return what a rank saved; the contents of its tensors are only read when they are used.

        Raises:
            UserError: the file is missing or damaged, or holds more than tensors and plain values.
        """
        if rank not in self._opened:
            name = f"{self._kind}_world_size_{self.ranks}_rank_{rank}.pt"
            self._opened[rank] = read_tensors(self._folder / name)
        return self._opened[rank]

    @cached_property
    def mesh(self) -> tuple[int, ...]:
        """The sizes of the mesh over which a model was sharded; of one dimension without shards."""
        found = (value for value in self.of(0).values() if isinstance(value, DTensor))
        first = next(found, None)
        return (self.ranks,) if first is None else tuple(first.device_mesh.shape)


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the tensors and plain values of a file of `torch.save`, mapped into memory.

    Raises:
        UserError: the file cannot be read, or contains other objects.
    """
    try:
        with torch.serialization.safe_globals(_ARRAYS):
            return torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except pickle.UnpicklingError as error:
        raise UserError(
            f"{path} contains more than tensors and plain values, which is not unpickled on "
            "another number of ranks: resume with the number that saved it"
        ) from error
    except (OSError, RuntimeError) as error:
        raise UserError(
            f"{path} cannot be read ({str(error).splitlines()[0]}): resume from another "
            "checkpoint (trainer.resume_from_path)"
        ) from error


def saved_sharding(folder: Path) -> Sharding | None:
    """Return how the model in a folder is sharded; None if verl has not recorded it.

    Raises:
        UserError: the record or the first shard cannot be read.
    """
    record = saved_version_and_ranks(folder)
    if record is None:
        return None
    version, ranks = record
    if version == 1:  # not in tensors that can be read without unpickling
        return Sharding(version, (ranks,))
    return Sharding(version, SavedShards(folder, "model", ranks).mesh)
