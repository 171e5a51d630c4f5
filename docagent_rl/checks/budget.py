"""The budget of a run: bytes of GPU memory, host memory and disk, computed before it starts.

These are pure functions from sizes to bytes. Weights, gradients, optimizer states, gathered
parameters, the server's weights and its cache follow from parameter counts and are exact. An
`estimate` covers what is known to be large (states that autograd saves, temporary copies,
processes) with the formula in its function; those of the passes are in `passes.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.checks.passes import (
    BFLOAT16,
    FLOAT32,
    Model,
    frozen_vision,
    kept_states,
    kept_vision,
    logits,
    packed_images,
    pass_bytes,
    patches,
)
from docagent_rl.rollout.images import MAX_FEATURES

GIB = 2**30
CONTEXT = 2 * GIB
"""Estimate: CUDA contexts, NCCL and cuBLAS of the trainer and the server on a GPU."""
SERVER_WORKSPACE = 3 * GIB
"""Estimate: activations of vLLM's profiling run and its CUDA graphs."""
PROCESS = 5 * GIB
"""Estimate: a process that has loaded torch, CUDA and vLLM."""
AGENT_PROCESS = 2 * GIB
"""Estimate: an agent loop worker without its image cache."""
SEARCH_CONTEXT = 3 * GIB // 4
"""Estimate: CUDA's context of a search actor that shares a GPU."""
SERVER_IMAGES = 4 * GIB
"""vLLM's cache of preprocessed images (`mm_processor_cache_gb`), per server."""


@dataclass(frozen=True, slots=True)
class Trained:
    """A model in training."""

    model: Model
    name: str
    shards: int
    """Number of GPUs over which weights, gradients and optimizer states are sharded."""
    tokens: int
    """Tokens of the longest micro-batch on a GPU."""
    frozen_vision: bool = False
    unused_head: bool = False
    """The output head receives no gradient (a critic)."""
    checkpointing: bool = True
    """Layers are recomputed in the backward pass."""
    fused: bool = True
    """Log-probs are computed without a full matrix of logits."""
    offloaded: bool = False
    """Weights and optimizer states are in host memory while the model is not training."""
    adapters: int = 0
    """Parameters of the LoRA adapters, float32, if only these are trained."""
    bytes_each: int = FLOAT32
    """Bytes per weight of the model; bfloat16 is only for weights that adapters leave frozen."""

    @property
    def learned(self) -> int:
        """The number of parameters that have gradients and optimizer states."""
        if self.adapters:
            return self.adapters
        still = self.model.vision * self.frozen_vision + self.model.head * self.unused_head
        return self.model.parameters - still

    @property
    def whole(self) -> int:
        """Bytes of all weights, including adapters."""
        return self.bytes_each * self.model.parameters + FLOAT32 * self.adapters

    @property
    def weights(self) -> int:
        """Bytes of the weights on one GPU."""
        return self.whole // self.shards

    @property
    def gradients(self) -> int:
        """Bytes of the gradients on one GPU, float32."""
        return FLOAT32 * self.learned // self.shards

    @property
    def optimizer(self) -> int:
        """Bytes of Adam's two moments on one GPU, float32."""
        return 2 * FLOAT32 * self.learned // self.shards

    @property
    def checkpoint(self) -> int:
        """Bytes of a checkpoint of the model on disk: weights and Adam's moments."""
        return self.whole + 2 * FLOAT32 * self.learned


@dataclass(frozen=True, slots=True)
class Server:
    """A rollout server of vLLM."""

    model: Model
    share: float
    """Share of the GPU's memory that it uses while awake."""
    gpus: int
    longest: int
    """Tokens of the longest trajectory."""
    sleeps: bool = True
    """It frees its memory during updates."""
    adapters: int = 0
    """Parameters of an adapter that it receives separately from its weights, which are then kept in
    host memory while it sleeps.
    """

    @property
    def weights(self) -> int:
        """Bytes of the weights on one GPU, bfloat16."""
        return BFLOAT16 * self.model.parameters // self.gpus

    @property
    def adapter(self) -> int:
        """Bytes of the adapter on one GPU, bfloat16."""
        return BFLOAT16 * self.adapters

    @property
    def trajectory(self) -> int:
        """Bytes of the keys and values of one trajectory of the longest kind on a GPU, bfloat16."""
        attending = self.model.layers - self.model.linear_layers
        return 2 * BFLOAT16 * attending * self.model.kv * self.longest // self.gpus


@dataclass(frozen=True, slots=True)
class Run:
    """All sizes of a run that its budget depends on."""

    trained: Sequence[Trained]
    """The policy and, if there is one, the critic."""
    server: Server
    reference: Model | None
    """The reference model, which is kept in host memory, if there is one."""
    gpus_per_node: int
    nodes: int
    rows: int
    """Rows per step."""
    image_tokens: int
    """Maximum number of visual tokens per row; a micro-batch may contain several rows."""
    image_unit: int
    """Width of a visual token in pixels."""
    agents: int
    """Number of agent loop workers of the run."""
    images: int
    """Bytes of the image cache of the run in Ray's object store."""
    kept: int | None
    """Number of checkpoints that are kept; None: all."""
    best: bool = False
    """The checkpoint with the best validation score is kept as well."""
    searching: int = 0
    """Bytes that search actors may take of a GPU of the trainer."""


class MemoryKind(StrEnum):
    """A kind of memory, in a phase of the run for that of GPUs."""

    UPDATE = "GPU, update"
    SYNC = "GPU, weight update"
    ROLLOUT = "GPU, rollout"
    HOST = "memory of a node"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class BudgetLine:
    """One part of a budget."""

    place: MemoryKind
    what: str
    size: int
    """Bytes on one GPU, on one node or, for disk, on all nodes together."""
    estimate: bool = False


def budget(run: Run, gpu_memory: int) -> list[BudgetLine]:
    """List all parts of a run's budget on GPUs with `gpu_memory` bytes each."""
    return [
        *_update(run, gpu_memory),
        *_sync(run),
        *_rollout(run, gpu_memory),
        *_host(run),
        *_disk(run),
    ]


def total(lines: Sequence[BudgetLine], place: MemoryKind, *, exact: bool = False) -> int:
    """Return the bytes needed in a place; `exact` omits estimates, which gives the minimum."""
    return sum(line.size for line in lines if line.place is place and not (exact and line.estimate))


def _update(run: Run, gpu_memory: int) -> Iterator[BudgetLine]:
    """List what is on a GPU while the largest of the models trains; the others' shards are, too."""
    place = MemoryKind.UPDATE
    work = {part.name: list(_work(part, run)) for part in run.trained}
    largest = max(run.trained, key=lambda part: total(work[part.name], place))
    for part in run.trained:
        if not part.offloaded or part is largest:
            yield BudgetLine(place, f"{part.name}: weights", part.weights)
            yield BudgetLine(place, f"{part.name}: optimizer", part.optimizer)
    yield from work[largest.name]
    if not run.server.sleeps:
        yield BudgetLine(place, "rollout server, awake", int(run.server.share * gpu_memory))
    yield from _searching(run, place)
    yield BudgetLine(place, "contexts", CONTEXT, estimate=True)


def _work(part: Trained, run: Run) -> Iterator[BudgetLine]:
    """List what a model's update needs in addition to its weights and optimizer."""
    place = MemoryKind.UPDATE
    model = part.model
    name = part.name
    tokens = part.tokens
    yield BudgetLine(place, f"{name}: gradients", part.gradients)
    # embeddings, head and two layers in bfloat16, and one layer's gradient in float32
    learned = part.adapters // model.layers if part.adapters else model.layer
    gathered = BFLOAT16 * (model.embeddings + model.head + 2 * model.layer) + FLOAT32 * learned
    yield BudgetLine(place, f"{name}: gathered layers", gathered)
    states = kept_states(model, tokens, checkpointing=part.checkpointing)
    yield BudgetLine(place, f"{name}: states of {tokens:,} tokens", states, estimate=True)
    images = packed_images(run.image_tokens, tokens)
    if images:
        if part.frozen_vision:
            vision = frozen_vision(model, images, states)
        else:
            vision = kept_vision(model, images, states, checkpointing=part.checkpointing)
        what = f"{name}: states of {images:,} visual tokens"
        yield BudgetLine(place, what, vision + pass_bytes(images, run.image_unit), estimate=True)
    if not part.unused_head:
        what = f"{name}: logits, {'fused' if part.fused else 'not fused'}"
        yield BudgetLine(place, what, logits(model, tokens, fused=part.fused), estimate=True)


def _sync(run: Run) -> Iterator[BudgetLine]:
    """List what is on a GPU while adapters are sent: verl loads the model next to the server's."""
    policy = run.trained[0]
    if policy.adapters and policy.offloaded:
        yield BudgetLine(MemoryKind.SYNC, f"{policy.name}: weights", policy.weights)
        yield BudgetLine(MemoryKind.SYNC, "server: weights", run.server.weights)
        yield from _searching(run, MemoryKind.SYNC)
        yield BudgetLine(MemoryKind.SYNC, "contexts", CONTEXT, estimate=True)


def _searching(run: Run, place: MemoryKind) -> Iterator[BudgetLine]:
    """List the search actors, which keep their memory in all phases."""
    if run.searching:
        yield BudgetLine(place, "search actors beside the server", run.searching)
        yield BudgetLine(place, "search actors: contexts", SEARCH_CONTEXT, estimate=True)


def server_cache(server: Server, gpu_memory: int) -> int:
    """Return the bytes of each of a server's GPUs that keys and values can take."""
    used = server.weights + server.adapter + SERVER_WORKSPACE
    return int(server.share * gpu_memory) - used


def _rollout(run: Run, gpu_memory: int) -> Iterator[BudgetLine]:
    place = MemoryKind.ROLLOUT
    server = run.server
    for part in run.trained:
        if not part.offloaded:
            yield BudgetLine(
                place, f"{part.name}: weights and optimizer", part.weights + part.optimizer
            )
    cache = server_cache(server, gpu_memory)
    yield BudgetLine(place, "server: weights", server.weights)
    if server.adapter:
        yield BudgetLine(place, "server: adapter", server.adapter)
    yield BudgetLine(place, "server: workspace", SERVER_WORKSPACE, estimate=True)
    fits = max(cache // server.trajectory, 0) if server.trajectory else 0
    what = f"server: cache for {fits} longest trajectories ({server.longest:,} tokens each)"
    yield BudgetLine(place, what, max(cache, server.trajectory))
    yield from _searching(run, place)
    yield BudgetLine(place, "contexts", CONTEXT, estimate=True)


def _host(run: Run) -> Iterator[BudgetLine]:
    place = MemoryKind.HOST
    gpus = run.gpus_per_node
    if run.reference is not None:
        share = FLOAT32 * run.reference.parameters * gpus // run.trained[0].shards
        yield BudgetLine(place, "reference, float32", share)
    for part in run.trained:
        if part.offloaded:
            what = f"{part.name}: weights and optimizer"
            yield BudgetLine(place, what, (part.weights + part.optimizer) * gpus)
    if run.server.adapters and run.server.sleeps:
        yield BudgetLine(place, "server: weights, asleep", run.server.weights * gpus)
    step = run.rows * patches(run.image_tokens, run.image_unit) // run.nodes
    if step:
        yield BudgetLine(
            place, f"images of {run.rows} rows, queue and workers", 2 * step, estimate=True
        )
        servers = max(gpus // run.server.gpus, 1)
        yield BudgetLine(
            place, "image caches of the servers", servers * SERVER_IMAGES, estimate=True
        )
        if run.reference is not None or any(part.frozen_vision for part in run.trained):
            # less on a node with less free memory
            yield BudgetLine(
                place, "features of frozen vision towers", gpus * MAX_FEATURES, estimate=True
            )
        # the workers' copies are at most the same size again
        yield BudgetLine(
            place, "image cache of the run", 2 * run.images // run.nodes, estimate=True
        )
    processes = 2 * gpus * PROCESS + -(-run.agents // run.nodes) * AGENT_PROCESS
    yield BudgetLine(place, "processes", processes, estimate=True)
    # one process per node loads the model, or all of them if embeddings are tied
    loading = max(part.whole * (1 if part.model.head else gpus) for part in run.trained)
    yield BudgetLine(place, "largest model while it loads", loading, estimate=True)


def _disk(run: Run) -> Iterator[BudgetLine]:
    """List checkpoints; an old one is only removed after a new one is complete, so at least two."""
    number = 1 if run.kept is None else max(run.kept, 2) + run.best
    for part in run.trained:
        yield BudgetLine(
            MemoryKind.DISK, f"{part.name}: {number} checkpoint(s)", number * part.checkpoint
        )
