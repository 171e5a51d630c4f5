"""Demands of round numbers: weights alone decide, so that plans can be computed by hand."""

from docagent_rl.checks.budget import CONTEXT, GIB, SERVER_WORKSPACE
from docagent_rl.checks.passes import Model
from docagent_rl.checks.placement.demand import Needs, ServiceDemand, TrainerLayout
from docagent_rl.models.layers import LayerBytes

FIXED = (SERVER_WORKSPACE + CONTEXT) // GIB
"""GiB of a server besides weights and cache: 5."""


def demand(name: str, weights: int, *, cache: int = 1, concurrency: int = 1, heads: int = 8):
    """Return a service with so many GiB of weights, and of cache for each request."""
    # two numbers (key and value) of two bytes, in one layer, for each token: 4 bytes x kv x tokens
    sizes = Model(
        parameters=weights * GIB // 2, vision=0, head=0, embeddings=0, hidden=1,
        kv=GIB // 4096, vocabulary=1, states=(LayerBytes(1, 1),), key_heads=heads,
    )  # fmt: skip
    return ServiceDemand(name, f"hub/{name}", sizes, 1024 * cache, concurrency, port=8001)


def layouts(weights: int, *sizes: int) -> tuple[TrainerLayout, ...]:
    """Return layouts of a trainer of so many GiB that its GPUs share, and 10 GiB on each."""
    return tuple(TrainerLayout(1, n, (weights // n + 10) * GIB, "GPU, update") for n in sizes)


def needs(*services: ServiceDemand, retriever: str | None = None) -> Needs:
    """Return needs of a trainer of 160 GiB on 1, 2, 4 or 8 GPUs, with these services."""
    return Needs("recipe", layouts(160, 1, 2, 4, 8), services, {}, retriever=retriever)
