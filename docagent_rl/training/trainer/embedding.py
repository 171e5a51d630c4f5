"""Embed trajectories in a separate process, on a suitable device and node."""

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
"""Needed because Ray 2.60 lets an actor without reserved GPUs see all GPUs."""
MOST_THREADS = 16
"""Further threads gain little on texts of a few thousand tokens."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


def embedder_place(
    config: EmbedderConfig, trainer_device: str, nodes: Sequence[Mapping[str, Any]]
) -> tuple[EmbedderConfig, dict[str, Any]]:
    """Choose the embedder's device, node and threads; return its configuration and Ray options.

    The default is the kind of device that the run trains on (`trainer.device`). An embedder that
    reserves a GPU gets it from Ray. One that reserves none is placed on a node with GPUs and shares
    the first one, because the workers have reserved them all. `nodes` are those of `ray.nodes()`.

    Raises:
        UserError: no node has the device.
    """
    # a user's function without a reserved GPU runs on the CPU
    on_trainer_device = config.function is None or config.num_gpus > 0
    device = config.device or (trainer_device if on_trainer_device else CPU)
    if device == CPU:
        threads = config.threads or _threads(nodes)
        variables = {**HIDDEN, **dict.fromkeys(THREADS, str(threads))}
        settled = config.model_copy(update={"device": CPU, "threads": threads})
        return settled, {"runtime_env": {"env_vars": variables}}
    settled = config.model_copy(update={"device": device})
    if config.num_gpus > 0:
        return settled, {}
    nodes_with_gpus = [
        node["NodeID"] for node in nodes if node["Alive"] and node["Resources"].get("GPU", 0) > 0
    ]
    if not nodes_with_gpus:
        raise UserError(
            f"{KEY}.device={device}: no node of this Ray cluster has a GPU; set {KEY}.device=cpu"
        )
    logger.warning(
        "the embedder shares %s with the workers that have reserved it (%s.num_gpus=0)",
        device,
        KEY,
    )
    on_node = NodeAffinitySchedulingStrategy(nodes_with_gpus[0], soft=False)
    return settled, {"scheduling_strategy": on_node}


def _threads(nodes: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of threads, which is limited by the smallest node, where it may be
    placed.
    """
    cpus = [node["Resources"].get("CPU", 0) for node in nodes if node["Alive"]]
    return max(1, min([MOST_THREADS, *(int(number) for number in cpus if number >= 1)]))


class TrajectoryEmbedder:
    """The embedder in a Ray actor, which starts at once and is called once per step.

    Raises:
        UserError: no node has the embedder's device.
    """

    def __init__(self, config: EmbedderConfig, trainer_device: str):
        settled, options = embedder_place(config, trainer_device, ray.nodes())
        actor = ray.remote(num_cpus=1, num_gpus=config.num_gpus)(embedder_class(config))
        self._actor = cast("ActorHandle", actor.options(**options).remote(settled))

    def __call__(self, texts: Sequence[str], metrics: dict[str, Any]) -> torch.Tensor:
        """Return vectors (s, d) of the texts; log their number and the share that was shortened.

        Raises:
            ray.exceptions.RayError: the actor failed, for example because its model cannot be
                loaded.
        """
        result = ray.get(self._actor.embed.remote(list(texts)))
        metrics["docagent/embedded_texts"] = float(len(texts))
        metrics["docagent/embedded_texts_shortened"] = result.shortened / max(len(texts), 1)
        return torch.from_numpy(result.vectors.copy())
