"""Embeds trajectories in a process of its own, on a device and a node chosen for it."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast

import ray
import torch
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from docagent_rl.advantages.embedder import CPU, EmbedderConfig, embedder_class
from docagent_rl.base.errors import UserError

logger = logging.getLogger(__name__)

KEY = "docagent.advantage.embedder"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""Ray 2.60 lets an actor that books no GPU see all of them."""
MOST_THREADS = 16
"""More of them gain little on texts of some thousand tokens."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def embedder_place(
    config: EmbedderConfig, trainer_device: str, nodes: Sequence[Mapping[str, Any]]
) -> tuple[EmbedderConfig, dict[str, Any]]:
    """Choose device, node and threads of the embedder; return its configuration, and Ray's options
    of it.

    Without a device it takes the kind that the run trains on (`trainer.device`). One that books a
    GPU gets it from Ray; one that books none goes to a node with GPUs and shares its first, for the
    workers have booked them all. `nodes` are those of `ray.nodes()`.

    Raises:
        UserError: no node has the device.
    """
    unsaid = trainer_device if config.function is None or config.num_gpus > 0 else CPU
    device = config.device or unsaid
    if device == CPU:
        threads = config.threads or _threads(nodes)
        variables = {**HIDDEN, **dict.fromkeys(THREADS, str(threads))}
        settled = config.model_copy(update={"device": CPU, "threads": threads})
        return settled, {"runtime_env": {"env_vars": variables}}
    settled = config.model_copy(update={"device": device})
    if config.num_gpus > 0:
        return settled, {}
    holders = [
        node["NodeID"] for node in nodes if node["Alive"] and node["Resources"].get("GPU", 0) > 0
    ]
    if not holders:
        raise UserError(
            f"{KEY}.device={device}: no node of this Ray has a GPU; set {KEY}.device=cpu"
        )
    logger.warning(
        "the embedder shares %s of a node with the workers that booked it (%s.num_gpus=0)",
        device,
        KEY,
    )
    return settled, {"scheduling_strategy": NodeAffinitySchedulingStrategy(holders[0], soft=False)}


def _threads(nodes: Sequence[Mapping[str, Any]]) -> int:
    """Return as many as the smallest node has places for, which is where it may end up."""
    cpus = [node["Resources"].get("CPU", 0) for node in nodes if node["Alive"]]
    return max(1, min([MOST_THREADS, *(int(number) for number in cpus if number >= 1)]))


class TrajectoryEmbedder:
    """A Ray actor that holds the embedder; it is started at once and asked once a step.

    Raises:
        UserError: no node has its device.
    """

    def __init__(self, config: EmbedderConfig, trainer_device: str):
        settled, options = embedder_place(config, trainer_device, ray.nodes())
        actor = ray.remote(num_cpus=1, num_gpus=config.num_gpus)(embedder_class(config))
        self._actor = cast("ActorHandle", actor.options(**options).remote(settled))

    def __call__(self, texts: Sequence[str], metrics: dict[str, Any]) -> torch.Tensor:
        """Return vectors (s, d) of the texts; log their number and the share that lost its middle.

        Raises:
            ray.exceptions.RayError: the actor failed, for example because its model cannot be
                loaded.
        """
        result = ray.get(self._actor.embed.remote(list(texts)))
        metrics["docagent/embedded_texts"] = float(len(texts))
        metrics["docagent/embedded_texts_shortened"] = result.shortened / max(len(texts), 1)
        return torch.from_numpy(result.vectors.copy())
