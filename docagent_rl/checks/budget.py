"""What a run takes of GPU memory, host memory and disk, in bytes, before it starts.

Pure: sizes in, bytes out. Weights, gradients, optimizer states, gathered parameters, the server's weights and
its cache follow from numbers of parameters and are exact; an `estimate` counts what is known to be large
(states that autograd keeps, temporary copies, processes) by the formula that its function gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from docagent_rl.checks.run_sizes import BFLOAT16, FLOAT32, Model, Run, Searching, Trained

GIB = 2**30
FUSED_TOKENS = 512
"""Positions whose logits verl's fused kernels hold at a time (`FusedLinearForPPO.chunk_size`)."""
CONTEXT = 2 * GIB
"""Estimate: CUDA contexts, NCCL and cuBLAS of trainer and server on a GPU."""
SERVER_WORKSPACE = 3 * GIB
"""Estimate: activations of vLLM's profiling run and its CUDA graphs."""
PROCESS = 5 * GIB
"""Estimate: a process with torch, CUDA and vLLM in it."""
AGENT_PROCESS = 2 * GIB
"""Estimate: an agent loop worker without its cache of images."""
SEARCH_PROCESS = GIB
"""Estimate: an actor that searches, with torch and without CUDA, beside its model."""
SERVER_IMAGES = 4 * GIB
"""vLLM's cache of preprocessed images (`mm_processor_cache_gb`), of each server."""
VALUES_OF_A_PATCH = 3 * 2 * 14 * 14
PATCHES_OF_A_TOKEN = 4


class Place(StrEnum):
    """What is counted."""

    UPDATE = "GPU, update"
    ROLLOUT = "GPU, rollout"
    HOST = "memory of a node"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class Line:
    """One part of a budget.

    Args:
        place: where it lies.
        what: of which part.
        size: bytes; of one GPU, one node, or all nodes together for disk.
        estimate: whether it is one.
    """

    place: Place
    what: str
    size: int
    estimate: bool = False


def budget(run: Run, gpu_memory: int) -> list[Line]:
    """All parts.

    Args:
        run: the sizes.
        gpu_memory: bytes of one GPU, of which the server takes its share.
    """
    return [*_update(run, gpu_memory), *_rollout(run, gpu_memory), *_host(run), *_disk(run)]


def total(lines: Sequence[Line], place: Place, *, exact: bool = False) -> int:
    """Bytes of a place; `exact` leaves estimates out, which is the least that a run takes."""
    return sum(line.size for line in lines if line.place is place and not (exact and line.estimate))


def kept_states(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """Estimate of what autograd keeps of a language model's pass over packed tokens, bytes.

    With checkpointing the input of each layer, bfloat16, and all states of one layer; otherwise all states
    of all layers. A layer's states, per token: about eight of width d, two of keys and values and four of the
    MLP's width in bfloat16, and two of width d in float32, for the norms.
    """
    one = tokens * (
        BFLOAT16 * (8 * model.hidden + 2 * model.kv + 4 * model.inner) + 2 * FLOAT32 * model.hidden
    )
    if checkpointing:
        return tokens * BFLOAT16 * model.hidden * model.layers + one
    return one * model.layers


def kept_vision(model: Model, tokens: int, *, checkpointing: bool) -> int:
    """The same of a vision tower's pass over the patches of `tokens` visual tokens."""
    patches, d = tokens * PATCHES_OF_A_TOKEN, model.vision_hidden
    one = patches * (BFLOAT16 * (11 * d + 4 * model.vision_inner) + 2 * FLOAT32 * d)
    if checkpointing:
        return patches * BFLOAT16 * d * model.vision_layers + one
    return one * model.vision_layers


def logits(model: Model, tokens: int, *, fused: bool) -> int:
    """Estimate of logits and what is made of them, with the head's gradient, bytes.

    A logit is held in bfloat16 and five times in float32 where verl fuses the kernels (probabilities, one-hot
    labels, gradients), for 512 positions at a time; else in bfloat16 with its gradient and twice in float32,
    for all positions.
    """
    head = BFLOAT16 * model.vocabulary * model.hidden
    if fused:
        held = min(tokens, FUSED_TOKENS) * model.vocabulary * (BFLOAT16 + 5 * FLOAT32)
        return held + head
    return tokens * model.vocabulary * (2 * BFLOAT16 + 2 * FLOAT32) + head


def patches(image_tokens: int) -> int:
    """Patches of a row's images as they travel, a byte a value of one frame of two, bytes."""
    return image_tokens * PATCHES_OF_A_TOKEN * VALUES_OF_A_PATCH // 2


def features(image_tokens: int) -> int:
    """What a pass makes of them, float32, both frames, bytes."""
    return image_tokens * PATCHES_OF_A_TOKEN * VALUES_OF_A_PATCH * FLOAT32


def _update(run: Run, gpu_memory: int) -> Iterator[Line]:
    """While the largest of the models trains; the others' shards stay."""
    place = Place.UPDATE
    for part in run.trained:
        if not part.offloaded:
            yield Line(place, f"{part.name}: weights", part.weights)
            yield Line(place, f"{part.name}: optimizer", part.optimizer)
    largest = max(run.trained, key=lambda part: _working(part, run))
    if largest.offloaded:
        yield Line(place, f"{largest.name}: weights", largest.weights)
        yield Line(place, f"{largest.name}: optimizer", largest.optimizer)
    yield Line(place, f"{largest.name}: gradients", largest.gradients)
    yield Line(place, f"{largest.name}: gathered layers", _gathered(largest))
    model, tokens = largest.model, largest.tokens
    states = kept_states(model, tokens, checkpointing=largest.checkpointing)
    yield Line(place, f"{largest.name}: states of {tokens:,} tokens", states, estimate=True)
    images = min(run.image_tokens, tokens)
    if images:
        vision = kept_vision(model, images, checkpointing=largest.checkpointing)
        if largest.frozen_vision:
            vision //= max(model.vision_layers, 1)  # one layer at a time
        what = f"{largest.name}: states of {images:,} visual tokens"
        yield Line(place, what, vision + features(images), estimate=True)
    if not largest.unused_head:
        what = f"{largest.name}: logits, {'fused' if largest.fused else 'not fused'}"
        yield Line(place, what, logits(model, tokens, fused=largest.fused), estimate=True)
    if not run.server.sleeps:
        yield Line(place, "rollout server, awake", int(run.server.share * gpu_memory))
    yield Line(place, "contexts", CONTEXT, estimate=True)


def _working(part: Trained, run: Run) -> int:
    images = min(run.image_tokens, part.tokens)
    states = kept_states(part.model, part.tokens, checkpointing=part.checkpointing)
    vision = kept_vision(part.model, images, checkpointing=part.checkpointing)
    vocabulary = logits(part.model, part.tokens, fused=part.fused) if not part.unused_head else 0
    return part.gradients + states + vision + vocabulary


def _gathered(part: Trained) -> int:
    """Embeddings, head and two layers in bfloat16, and one layer's gradient in float32."""
    model = part.model
    whole = model.embeddings + model.head + 2 * model.layer
    return BFLOAT16 * whole + FLOAT32 * model.layer


def _rollout(run: Run, gpu_memory: int) -> Iterator[Line]:
    place, server = Place.ROLLOUT, run.server
    for part in run.trained:
        if not part.offloaded:
            yield Line(place, f"{part.name}: weights and optimizer", part.weights + part.optimizer)
    taken = int(server.share * gpu_memory)
    cache = taken - server.weights - SERVER_WORKSPACE
    yield Line(place, "server: weights", server.weights)
    yield Line(place, "server: workspace", SERVER_WORKSPACE, estimate=True)
    fits = cache // server.session if server.session else 0
    what = f"server: cache, {max(fits, 0)} of the longest sessions at {server.longest:,} tokens"
    yield Line(place, what, max(cache, server.session))
    yield Line(place, "contexts", CONTEXT, estimate=True)


def _host(run: Run) -> Iterator[Line]:
    place, gpus = Place.HOST, run.gpus_per_node
    if run.reference is not None:
        shards = run.trained[0].shards
        yield Line(place, "reference, float32", FLOAT32 * run.reference.parameters * gpus // shards)
    for model in run.trained:
        if model.offloaded:
            yield Line(
                place, f"{model.name}: weights and optimizer", (model.weights + model.optimizer) * gpus
            )
    step = run.rows * patches(run.image_tokens) // run.nodes
    if step:
        yield Line(place, f"images of {run.rows} rows, queue and workers", 2 * step, estimate=True)
        servers = max(gpus // run.server.gpus, 1)
        yield Line(place, "image caches of the servers", servers * SERVER_IMAGES, estimate=True)
        # what workers hold of them is at most as much again
        yield Line(place, "images that the run keeps", 2 * run.images // run.nodes, estimate=True)
    agents = -(-run.agents // run.nodes)
    yield Line(place, "processes", 2 * gpus * PROCESS + agents * AGENT_PROCESS, estimate=True)
    yield Line(place, "largest model while it loads", _loading(run), estimate=True)
    for each in run.searching:
        yield from _searching(each, run.nodes)


def _searching(part: Searching, nodes: int) -> Iterator[Line]:
    """Of the node that holds most of it; its index may be read from the disk again, where memory is short."""
    processes = -(-part.processes // nodes)
    several = f"{processes} process{'es' * (processes > 1)}"
    if part.model and not part.gpu:
        yield Line(Place.HOST, f"{part.name}: model in {several}", processes * part.model, estimate=True)
    if part.own:
        yield Line(Place.HOST, f"{part.name}: {several}", processes * SEARCH_PROCESS, estimate=True)
    if part.index:
        yield Line(Place.HOST, f"{part.name}: index, mapped", part.index, estimate=True)


def _loading(run: Run) -> int:
    """Estimate, float32: one process a node loads a model, or all where embeddings are tied."""
    return max(
        FLOAT32 * part.model.parameters * (1 if part.model.head else run.gpus_per_node)
        for part in run.trained
    )


def _disk(run: Run) -> Iterator[Line]:
    """A new checkpoint is whole before an older one goes, so that there are two at least."""
    number = 1 if run.kept is None else max(run.kept, 2) + run.best
    for part in run.trained:
        yield Line(Place.DISK, f"{part.name}: {number} checkpoint(s)", number * part.checkpoint)
