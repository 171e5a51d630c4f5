"""Where the embedder of SPO runs: on which kind of device, on which node, with how many threads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from docagent_rl.advantages.embedder import CPU, EmbedderConfig
from docagent_rl.base.errors import UserError

KEY = "docagent.advantage.embedder"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""Ray 2.60 lets an actor that books no GPU see all of them."""
MOST_THREADS = 16
"""More of them gain little on texts of some thousand tokens."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class EmbedderPlace:
    """What Ray and torch are told.

    Args:
        config: with the device and the threads filled in.
        node: Ray's id of a node that has the device, where Ray would not see to that; else any node.
        variables: of the process.
        shares: it uses a GPU that others have booked.
    """

    config: EmbedderConfig
    node: str | None
    variables: Mapping[str, str]
    shares: bool


def embedder_place(
    config: EmbedderConfig, trainer_device: str, nodes: Sequence[Mapping[str, Any]]
) -> EmbedderPlace:
    """Choose.

    Without a device it takes the kind that the run trains on. One that books a GPU gets it from Ray; one that
    books none goes to a node with GPUs and shares its first, for the workers have booked them all.

    Args:
        config: as it is written.
        trainer_device: `trainer.device`.
        nodes: as `ray.nodes()` gives them.

    Raises:
        UserError: no node has the device.
    """
    unsaid = trainer_device if config.function is None or config.num_gpus > 0 else CPU
    device = config.device or unsaid
    if device == CPU:
        threads = config.threads or _threads(nodes)
        variables = {**HIDDEN, **dict.fromkeys(THREADS, str(threads))}
        settled = config.model_copy(update={"device": CPU, "threads": threads})
        return EmbedderPlace(settled, None, variables, shares=False)
    settled = config.model_copy(update={"device": device})
    if config.num_gpus > 0:
        return EmbedderPlace(settled, None, {}, shares=False)
    holders = [node["NodeID"] for node in nodes if node["Alive"] and node["Resources"].get("GPU", 0) > 0]
    if not holders:
        raise UserError(f"{KEY}.device={device}: no node of this Ray has a GPU; set {KEY}.device=cpu")
    return EmbedderPlace(settled, holders[0], {}, shares=True)


def _threads(nodes: Sequence[Mapping[str, Any]]) -> int:
    """As many as the smallest node has places for, which is where it may end up."""
    cpus = [node["Resources"].get("CPU", 0) for node in nodes if node["Alive"]]
    return max(1, min([MOST_THREADS, *(int(number) for number in cpus if number >= 1)]))
