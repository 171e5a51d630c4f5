"""Embeds trajectories, in a process of its own, and what they did before each of their turns."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, cast

import ray
import torch
from ray.actor import ActorHandle
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from docagent_rl.advantages.embedder import EmbedderConfig, embedder_class
from docagent_rl.config import TextConfig
from docagent_rl.rollout.digest import TrajectoryDigest
from docagent_rl.training.trainer.embedder_place import KEY, embedder_place
from docagent_rl.training.trainer.texts import prefix_texts

logger = logging.getLogger(__name__)

Embed = Callable[[Sequence[str], dict[str, Any]], torch.Tensor]
"""`(texts, metrics) -> (n, d)`"""


class TrajectoryEmbedder:
    """A Ray actor that holds the embedder; it is started at once and asked once a step.

    Args:
        config: which model or function, and where it runs.
        trainer_device: `trainer.device`, which it takes where it is given none.

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
        """Vectors (s, d) of the texts; their number and the share that lost its middle go to the metrics.

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
    """One vector for what each of s trajectories did in its first n turns.

    Args:
        trajectories: in the order of the result.
        config: what stands for a turn.
        embed: the embedder, called once.
        metrics: numbers to log; changed in place.

    Returns:
        (s, k + 1, d), k the most turns of a trajectory; zeros at n = 0, and a trajectory's last vector from
        its last turn on.
    """
    texts = [prefix_texts(trajectory, config) for trajectory in trajectories]
    vectors = embed([text for each in texts for text in each], metrics)
    longest = max(map(len, texts))
    table = torch.zeros(len(trajectories), longest + 1, vectors.shape[1], dtype=vectors.dtype)
    for number, own in enumerate(vectors.split([len(each) for each in texts])):
        for turn in range(1, longest + 1 if len(own) else 0):
            table[number, turn] = own[min(turn, len(own)) - 1]
    return table
