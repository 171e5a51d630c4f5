"""The query encoder of a run: seconds of a step's searches on CPU cores and a GPU, and its memory.

Everything is computed from the sizes of the encoder's language model. Times are those of encoding
alone, without the scoring of pages.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from docagent_rl.checks.budget import GIB, SEARCH_CONTEXT, Run
from docagent_rl.checks.budget_table import gib
from docagent_rl.checks.cards import Speed
from docagent_rl.checks.model_sizes import known_sizes
from docagent_rl.checks.passes import BFLOAT16, Model
from docagent_rl.checks.rates import Rates
from docagent_rl.retrieval.config import Backend, RetrieverConfig
from docagent_rl.retrieval.encoders.spec import MODELS

QUERY = 32
"""Tokens of a query in its prompt: assumed."""
CORE = (26e9, 70e9)
"""Operations per second of a CPU core: assumed, .4 to .15 s for a query of ColQwen2 on eight
cores. A core without arithmetic in bfloat16 (AMD EPYC with AVX2) took 15 s for one in bfloat16,
which is 6e9.
"""
BATCH_S = 0.03
"""Seconds of a batch on a GPU besides, for launching some hundreds of kernels: assumed."""
WORK = GIB
"""Estimate: memory for a batch of queries on a GPU."""


@dataclass(frozen=True, slots=True)
class EncoderCost:
    """The searches of a step, by the place of the query encoder.

    Args:
        name: the encoder.
        searches: the most searches of a step.
        cores: CPU cores that the search actors reserve.
        batch: queries that an actor encodes together at most.
        shared_gib: GiB that it takes of a GPU, rounded up to halves, without its context.
        fewer: the number of longest trajectories for which a server's cache would have room in
            that memory and the context.
        cpu_s: the fewest and the most seconds on the cores.
        gpu_s: seconds on one GPU; None if its speed is not known.
        configured: whether the configuration gives it a GPU.
    """

    name: str
    searches: int
    cores: float
    batch: int
    shared_gib: float
    fewer: int
    cpu_s: tuple[float, float]
    gpu_s: float | None
    configured: bool


def encoder_cost(
    config: RetrieverConfig, run: Run, searches: int, speed: Speed | None, rates: Rates
) -> EncoderCost | None:
    """Return the cost of a run's query encoder.

    None if it has none in actors of the run, or one whose sizes are not known.

    Args:
        config: the retriever.
        run: the run's models and GPUs.
        searches: the most searches of a step.
        speed: the speed of each GPU, if its card is known.
        rates: the constants of the formula.
    """
    known = MODELS.get(config.model or "")
    model = known_sizes(known.base) if known is not None and known.base else None
    if known is None or model is None or config.backend is not Backend.RAY:
        return None
    service = config.service
    cores = service.num_cpus * service.replicas
    operations = searches * QUERY * 2 * _language(model)
    slow, fast = (operations / (max(cores, 1) * core) for core in CORE)
    weights = BFLOAT16 * (model.parameters - model.head)
    # in half GiB, as a user would write it
    shared = -(-2 * (weights + WORK) // GIB) / 2
    taken = int(shared * GIB) + SEARCH_CONTEXT
    return EncoderCost(
        name=str(config.model),
        searches=searches,
        cores=cores,
        batch=service.threads,
        shared_gib=shared,
        fewer=-(-taken // max(run.server.trajectory, 1)),
        cpu_s=(fast, slow),
        gpu_s=None if speed is None else _on_gpu(model, searches, service.threads, speed, rates),
        configured=service.num_gpus > 0 or service.shared_gpu_gib is not None,
    )


def _language(model: Model) -> int:
    """Return the number of parameters that work on a token of a query."""
    return model.parameters - model.vision - model.embeddings - model.head


def _on_gpu(model: Model, searches: int, batch: int, speed: Speed, rates: Rates) -> float:
    """Return the seconds of full batches: each is launched, and computes or reads the weights,
    whichever takes longer.
    """
    computing = batch * QUERY * 2 * _language(model) / (speed.operations * rates.prefill.value)
    reading = BFLOAT16 * _language(model) / (speed.bandwidth * rates.decoding.value)
    return -(-searches // batch) * (BATCH_S + max(computing, reading))


def encoder_markdown(cost: EncoderCost, gpu_memory: int) -> str:
    """Return the places of the query encoder as a table in Markdown; `gpu_memory` are the bytes
    that programs see on a GPU.
    """
    head = (
        f"| query encoder {cost.name}, at most {cost.searches:,} searches a step | seconds | GiB "
        "of a GPU | |\n|---|---:|---:|---|"
    )
    return "\n".join([head, *_rows(cost, gpu_memory)]) + "\n"


def _rows(cost: EncoderCost, gpu_memory: int) -> Iterator[str]:
    fast, slow = cost.cpu_s
    slower, faster = (f"{core / 1e9:.0f}e9" for core in CORE)
    yield (
        f"| on {cost.cores:g} CPU cores{'' if cost.configured else ' (configured)'} | {fast:,.0f} "
        f"to {slow:,.0f} | | {slower} to {faster} operations per second and core: assumed |"
    )
    taken = int(cost.shared_gib * GIB) + SEARCH_CONTEXT
    seconds = "" if cost.gpu_s is None else f"{cost.gpu_s:,.1f}"
    key = f"docagent.retriever.service.shared_gpu_gib={cost.shared_gib:g}"
    yield (
        f"| on a GPU{' (configured)' if cost.configured else ''} | {seconds} | {gib(taken)} | in "
        f"batches of {cost.batch}, {BATCH_S:g} s each besides: assumed; {key} takes this memory of "
        f"a GPU of the trainer, as much as a cache for {cost.fewer} longest trajectories, or "
        f"{taken / gpu_memory:.2f} of gpu_memory_utilization |"
    )
