"""Load a checkpoint of verl's FSDP2 engine on another number of ranks than saved it.

Every rank reads the parts of the saved shards that overlap with its own shards, and no others:
parameters are written in place, and moments of the optimizer are allocated as this rank's shards.
Files are mapped into memory, so that no rank holds more than it trains.
"""

import hashlib
import logging
import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Shard
from torch.optim import Optimizer
from verl.utils.checkpoint.fsdp_checkpoint_manager import FSDPCheckpointManager
from verl.utils.fsdp_utils import fsdp_version

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.sharding import Sharding, check_change, pieces, shard_range
from docagent_rl.checkpoints.shards import SavedShards, read_tensors

logger = logging.getLogger(__name__)

SavedBy = Callable[[int], Any]
"""Returns what a saved rank has of one tensor."""


@torch.no_grad()
def load_resharded(manager: FSDPCheckpointManager, folder: Path, version: int, ranks: int) -> None:
    """Load what `load_contents` names from a folder saved with a version of FSDP by `ranks` ranks.

    Raises:
        UserError: the shards cannot be distributed anew, or do not fit the model or the optimizer.
    """
    saved = SavedShards(folder, "model", ranks)
    model = manager.model
    mesh = (ranks,) if version == 1 else saved.mesh
    check_change(folder, Sharding(version, mesh), _sharding(model))
    if manager.rank == 0:
        logger.warning(
            "%s was saved by %d ranks: distributing its shards over %d",
            folder,
            ranks,
            manager.world_size,
        )
    if manager.should_load_model:
        _load_model(model, saved)
    if manager.should_load_optimizer:
        _load_optimizer(manager.optimizer, SavedShards(folder, "optim", ranks))
    if manager.should_load_extra:
        extra = SavedShards(folder, "extra_state", ranks).of(0)
        if extra["lr_scheduler"] is not None and manager.lr_scheduler is not None:
            manager.lr_scheduler.load_state_dict(extra["lr_scheduler"])
        if "rng" in extra:
            seed_rank(extra["rng"]["cpu"], manager.rank, manager.world_size)
    torch.distributed.barrier()


def seed_rank(state: Tensor, rank: int, ranks: int) -> None:
    """Seed the generators of a rank from the state that rank 0 saved.

    The states of other ranks have no counterpart. The seed of torch (all devices), numpy and
    `random` are the first 8 bytes of the SHA-256 of rank 0's CPU state followed by `rank/ranks`.
    """
    digest = hashlib.sha256(state.numpy().tobytes() + f"{rank}/{ranks}".encode()).digest()
    seed = int.from_bytes(digest[:8], "big")
    torch.manual_seed(seed)
    np.random.seed(seed % 2**32)
    random.seed(seed)


def loader_state(path: Path, batch_size: int) -> dict[str, Any]:
    """Return the state of rank 0's data loader in supervised training for ranks whose batches have
    `batch_size` rows.

    Ranks take turns in the order of the rows, so that any number of them yields the same batches
    together; the saved number of rows is that of one rank.

    Raises:
        UserError: the state cannot be read, or is that of another loader.
    """
    state = read_tensors(path)
    snapshot = state.get("_snapshot") or {}  # with processes that load
    position = snapshot.get("_main_snapshot", state)
    try:
        position["_sampler_iter_state"] = {
            "samples_yielded": position["_sampler_iter_yielded"] * batch_size
        }
    except (KeyError, TypeError) as error:
        raise UserError(
            f"{path} is not the state of verl's loader: resume with the number of ranks that "
            "saved it"
        ) from error
    return state


def _sharding(model: nn.Module) -> Sharding:
    first = next((each for each in model.parameters() if isinstance(each, DTensor)), None)
    if first is None:
        return Sharding(fsdp_version(model), (torch.distributed.get_world_size(),))
    return Sharding(fsdp_version(model), tuple(first.device_mesh.shape))


def _load_model(model: nn.Module, saved: SavedShards) -> None:
    targets = model.state_dict()
    names = saved.of(0)
    adapters_only = FSDPCheckpointManager.is_lora_only_state_dict(names)
    unknown = names.keys() - targets.keys()
    missing = set() if adapters_only else targets.keys() - names.keys()
    if unknown or missing:
        raise UserError(
            f"the checkpoint is of another model: it has {len(unknown)} tensors that this one "
            f"lacks, and lacks {len(missing)} of its tensors, such as "
            f"{min(unknown | missing)}: resume with the model and the adapters that it was saved "
            "with"
        )
    for name in names:
        _fill(name, targets[name], saved, partial(_saved_tensor, saved, name))


def _load_optimizer(optimizer: Optimizer, saved: SavedShards) -> None:
    header = saved.of(0)
    if "param_groups" not in header:
        raise UserError(
            "the optimizer's state is not that of torch.optim: its shards can only be loaded by "
            f"{saved.ranks} ranks"
        )
    # without states, so that an optimizer of other tensors is refused before they are allocated
    optimizer.load_state_dict({"state": {}, "param_groups": header["param_groups"]})
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    states: dict[int, dict[str, Any]] = {}
    for index, entries in header["state"].items():
        states[index] = {}
        for name, value in entries.items():
            label = f"{name} of tensor {index} of {type(optimizer).__name__}"
            saved_by = partial(_saved_state, saved, index, name)
            states[index][name] = _state(label, value, parameters[index], saved, saved_by)
    optimizer.load_state_dict({"state": states, "param_groups": header["param_groups"]})


def _saved_tensor(saved: SavedShards, name: str, rank: int) -> Any:
    return saved.of(rank)[name]


def _saved_state(saved: SavedShards, index: int, name: str, rank: int) -> Any:
    return saved.of(rank)["state"][index][name]


def _state(label: str, value: Any, parameter: Tensor, saved: SavedShards, saved_by: SavedBy) -> Any:
    """Return this rank's part of a state of the optimizer; numbers, such as the step, as saved."""
    if not isinstance(value, Tensor):
        return value
    if value.numel() == 1 and not isinstance(value, DTensor):
        return value.clone()  # the file is not kept open for it
    if not isinstance(value, DTensor) or value.shape != parameter.shape:
        raise UserError(
            f"{label} is not sharded like the tensor itself, so that it can only be loaded by "
            f"{saved.ranks} ranks"
        )
    own = torch.empty_like(parameter, dtype=value.dtype)
    _fill(label, own, saved, saved_by)
    return own


def _fill(name: str, target: Tensor, saved: SavedShards, saved_by: SavedBy) -> None:
    """Write this rank's part of a saved tensor to a tensor in place; whole ones from rank 0."""
    first = saved_by(0)
    if first.shape != target.shape or isinstance(first, DTensor) != isinstance(target, DTensor):
        raise UserError(
            f"{name} is of shape {tuple(first.shape)} in the checkpoint, and "
            f"{tuple(target.shape)} in this run: resume with the model that it was saved with"
        )
    if not (isinstance(first, DTensor) and isinstance(target, DTensor)):
        target.copy_(first)
        return
    (placement,) = target.placements
    if not isinstance(placement, Shard) or tuple(first.placements) != (placement,):
        raise UserError(
            f"{name} is {first.placements} in the checkpoint, and {target.placements} in this "
            f"run: resume with {saved.ranks} ranks"
        )
    dim = placement.dim
    size = target.shape[dim]
    rank = target.device_mesh.get_local_rank()
    own = target.to_local()
    for piece in pieces(size, rank, target.device_mesh.size(), saved.ranks):
        shard = saved_by(piece.saved_rank).to_local()
        if shard.shape[dim] != len(shard_range(size, piece.saved_rank, saved.ranks)):
            raise UserError(
                f"{name}: the shard of rank {piece.saved_rank} has {shard.shape[dim]} indices, "
                "which is not how FSDP2 cuts it: resume from another checkpoint"
            )
        part = shard.narrow(dim, piece.saved_start, piece.length)
        own.narrow(dim, piece.start, piece.length).copy_(part)
