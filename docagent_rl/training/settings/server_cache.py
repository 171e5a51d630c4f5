"""How much of a node's memory a rollout server may fill with images."""

from __future__ import annotations

import psutil
from omegaconf import DictConfig, OmegaConf

from docagent_rl.training.serving.affinity import servers_of

KEY = "actor_rollout_ref.rollout.engine_kwargs.vllm.mm_processor_cache_gb"
TOKEN_BYTES = 4 * 3 * 2 * 16**2 * 2
"""Features of a visual token: 4 patches of 3 channels, 2 frames and 16 x 16 pixels (Qwen3-VL; before it
14 x 14), 2 bytes each."""
LEAST_GIB = 4.0
"""vLLM's default."""
MEMORY_SHARE = 0.1
"""Of a node's memory, for the caches of all its servers."""


def size_server_cache(run: DictConfig, image_tokens: int) -> None:
    """Give vLLM's cache room for the images of all trajectories that a server plays at a time, unless it is
    set.

    An image that was dropped is fetched and sent again: slower, never wrong.

    Args:
        run: the composed configuration; changed in place.
        image_tokens: visual tokens of a trajectory at most.
    """
    vllm = run.actor_rollout_ref.rollout.name == "vllm"
    if not vllm or not image_tokens or OmegaConf.select(run, KEY) is not None:
        return
    servers = servers_of(run)
    nodes = int(OmegaConf.select(run, "trainer.nnodes", default=1))
    trajectories = int(run.data.train_batch_size) * int(run.actor_rollout_ref.rollout.n)
    tokens = -(-trajectories // servers) * image_tokens
    size = cache_gib(tokens, psutil.virtual_memory().total // -(-servers // nodes))
    OmegaConf.update(run, KEY, size, force_add=True)


def cache_gib(tokens: int, memory: float) -> float:
    """Return the size of a server's cache in GiB.

    Args:
        tokens: visual tokens of all trajectories that the server plays at a time.
        memory: bytes of its node, divided by the servers there.
    """
    return round(max(LEAST_GIB, min(tokens * TOKEN_BYTES, MEMORY_SHARE * memory) / 2**30), 2)
