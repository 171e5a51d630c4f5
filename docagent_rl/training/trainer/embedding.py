"""Embeds trajectories in a process of its own, on a device and a node chosen for it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import ray
import torch
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from docagent_rl.advantages.embedder import CPU, EmbedderConfig, embedder_class
from docagent_rl.base.errors import UserError
from docagent_rl.config import TextConfig
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.training.trainer.texts import prefix_texts

KEY = "docagent.advantage.embedder"
HIDDEN = {"CUDA_VISIBLE_DEVICES": ""}
"""Ray 2.60 lets an actor that books no GPU see all of them."""
MOST_THREADS = 16
"""More of them gain little on texts of some thousand tokens."""
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class EmbedderPlace:
    """The place of the embedder: its configuration with device and threads filled in.

    `node` is Ray's id of a node that has the device, where Ray would not see to that; `variables` are of the
    process; `shares`: it uses a GPU that others have booked.
    """

    config: EmbedderConfig
    node: str | None
    variables: Mapping[str, str]
    shares: bool


def embedder_place(
    config: EmbedderConfig, trainer_device: str, nodes: Sequence[Mapping[str, Any]]
) -> EmbedderPlace:
    """Choose device, node and threads of the embedder.

    Without a device it takes the kind that the run trains on (`trainer.device`). One that books a GPU gets
    it from Ray; one that books none goes to a node with GPUs and shares its first, for the workers have
    booked them all. `nodes` are those of `ray.nodes()`.

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
    """Return as many as the smallest node has places for, which is where it may end up."""
    cpus = [node["Resources"].get("CPU", 0) for node in nodes if node["Alive"]]
    return max(1, min([MOST_THREADS, *(int(number) for number in cpus if number >= 1)]))


logger = logging.getLogger(__name__)

Embed = Callable[[Sequence[str], dict[str, Any]], torch.Tensor]
"""`(texts, metrics) -> (n, d)`"""


class TrajectoryEmbedder:
    """A Ray actor that holds the embedder; it is started at once and asked once a step.

    Raises:
        UserError: no node has its device.
    """

    def __init__(self, config: EmbedderConfig, trainer_device: str):
        place = embedder_place(config, trainer_device, ray.nodes())
        actor = ray.remote(num_cpus=1, num_gpus=config.num_gpus)(embedder_class(config))
        options: dict[str, Any] = {"runtime_env": {"env_vars": dict(place.variables)}}
        if place.node is not None:
            options["scheduling_strategy"] = NodeAffinitySchedulingStrategy(place.node, soft=False)
        if place.shares:
            logger.warning(
                "the embedder shares %s of a node with the workers that booked it (%s.num_gpus=0)",
                place.config.device,
                KEY,
            )
        self._actor = cast("ActorHandle", actor.options(**options).remote(place.config))

    def __call__(self, texts: Sequence[str], metrics: dict[str, Any]) -> torch.Tensor:
        """Return vectors (s, d) of the texts; log their number and the share that lost its middle.

        Raises:
            ray.exceptions.RayError: the actor failed, for example because its model cannot be loaded.
        """
        result = ray.get(self._actor.embed.remote(list(texts)))
        metrics["docagent/embedded_texts"] = float(len(texts))
        metrics["docagent/embedded_texts_shortened"] = result.shortened / max(len(texts), 1)
        return torch.from_numpy(result.vectors.copy())


def prefix_embeddings(
    trajectories: Sequence[TrajectoryDigest], config: TextConfig, embed: Embed, metrics: dict[str, Any]
) -> torch.Tensor:
    """Return one vector for what each of s trajectories did in its first n turns, embedded in one call.

    (s, k + 1, d), k the most turns of a trajectory; zeros at n = 0, and a trajectory's last vector from its
    last turn on. `metrics` is changed in place.
    """
    texts = [prefix_texts(trajectory, config) for trajectory in trajectories]
    vectors = embed([text for each in texts for text in each], metrics)
    longest = max(map(len, texts))
    table = torch.zeros(len(trajectories), longest + 1, vectors.shape[1], dtype=vectors.dtype)
    for number, own in enumerate(vectors.split([len(each) for each in texts])):
        for turn in range(1, longest + 1 if len(own) else 0):
            table[number, turn] = own[min(turn, len(own)) - 1]
    return table
