"""Embeds sessions in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ray
import torch

from docagent_rl.advantages.embedder import EmbedderConfig, embedder_class


class SessionEmbedder:
    """A Ray actor that holds the embedder; it is started at once and asked once a step.

    Args:
        config: which model or function, and how many GPUs its actor books.
    """

    def __init__(self, config: EmbedderConfig):
        actor = ray.remote(num_cpus=1, num_gpus=config.num_gpus)(embedder_class(config))
        self._actor = actor.remote(config)

    def __call__(self, texts: Sequence[str], metrics: dict[str, Any]) -> torch.Tensor:
        """Vectors (s, d) of the texts; their number and the share that lost its middle go to the metrics.

        Raises:
            ray.exceptions.RayError: the actor failed, for example because its model cannot be loaded.
        """
        result = ray.get(self._actor.embed.remote(list(texts)))
        metrics["docagent/embedded_texts"] = float(len(texts))
        metrics["docagent/embedded_texts_shortened"] = result.shortened / max(len(texts), 1)
        return torch.from_numpy(result.vectors.copy())
