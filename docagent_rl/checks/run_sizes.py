"""What a run consists of, as far as its memory goes: models, who trains and serves them, who searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

FLOAT32, BFLOAT16 = 4, 2
"""Bytes of a number."""


@dataclass(frozen=True, slots=True)
class Model:
    """A language model.

    Args:
        parameters: all of them.
        vision: those of the vision tower.
        head: those of the output head, 0 where it shares the embeddings'.
        embeddings: those of the input embeddings.
        layers: of the language model.
        hidden: width.
        inner: width within the MLP.
        kv: width of keys, and of values.
        vocabulary: rows of the head.
        vision_layers: of the vision tower.
        vision_hidden: its width.
        vision_inner: width within its MLP.
    """

    parameters: int
    vision: int
    head: int
    embeddings: int
    layers: int
    hidden: int
    inner: int
    kv: int
    vocabulary: int
    vision_layers: int = 0
    vision_hidden: int = 0
    vision_inner: int = 0

    @property
    def layer(self) -> int:
        """Parameters of one layer of the language model."""
        rest = self.parameters - self.vision - self.head - self.embeddings
        return rest // self.layers


@dataclass(frozen=True, slots=True)
class Trained:
    """A model in training.

    Args:
        model: its sizes.
        name: for the table.
        shards: GPUs that share weights, gradients and optimizer states.
        tokens: of its longest micro-batch on a GPU.
        frozen_vision: the vision tower is not trained.
        unused_head: nothing of the loss reaches the output head (a critic).
        checkpointing: layers are computed again in the backward pass.
        fused: log-probs without a matrix of logits.
        offloaded: weights and optimizer states wait in host memory while it does not train.
    """

    model: Model
    name: str
    shards: int
    tokens: int
    frozen_vision: bool = False
    unused_head: bool = False
    checkpointing: bool = True
    fused: bool = True
    offloaded: bool = False

    @property
    def learned(self) -> int:
        """Parameters that have gradients and optimizer states."""
        still = self.model.vision * self.frozen_vision + self.model.head * self.unused_head
        return self.model.parameters - still

    @property
    def weights(self) -> int:
        """Of one GPU, float32."""
        return FLOAT32 * self.model.parameters // self.shards

    @property
    def gradients(self) -> int:
        """Of one GPU, float32."""
        return FLOAT32 * self.learned // self.shards

    @property
    def optimizer(self) -> int:
        """Of one GPU: the two moments of Adam, float32."""
        return 2 * FLOAT32 * self.learned // self.shards

    @property
    def checkpoint(self) -> int:
        """Of the whole model on disk: weights and moments."""
        return FLOAT32 * self.model.parameters + 2 * FLOAT32 * self.learned


@dataclass(frozen=True, slots=True)
class Server:
    """A rollout server of vLLM.

    Args:
        model: what it serves.
        share: of the GPU's memory that it takes while awake.
        gpus: over which it is spread.
        longest: tokens of the longest session.
        sleeps: gives its memory back during updates.
    """

    model: Model
    share: float
    gpus: int
    longest: int
    sleeps: bool = True

    @property
    def weights(self) -> int:
        """Of one GPU, bfloat16."""
        return BFLOAT16 * self.model.parameters // self.gpus

    @property
    def session(self) -> int:
        """Keys and values of one longest session on one GPU, bfloat16."""
        return 2 * BFLOAT16 * self.model.layers * self.model.kv * self.longest // self.gpus


@dataclass(frozen=True, slots=True)
class Searching:
    """A retriever of the run, in its own actors or in all that ask it.

    Args:
        name: of its section.
        model: bytes of the model that reads queries; 0: none, or a server has it.
        index: bytes of the index's files, which all processes of a node map together; 0: not built yet.
        processes: that have it open, of the run.
        own: whether these serve it alone.
        gpu: whether the model lies on a GPU, which no trainer has.
    """

    name: str
    model: int
    index: int
    processes: int
    own: bool
    gpu: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """What is budgeted.

    Args:
        trained: policy and, where there is one, critic.
        server: of the rollout, on the same GPUs.
        reference: the model that runs from host memory, if any.
        gpus_per_node: GPUs of a node.
        nodes: machines.
        rows: of a step.
        image_tokens: of a row at most.
        agents: agent loop workers of the run.
        images: bytes of images that the run keeps in Ray's store.
        kept: checkpoints that stay; None: all.
        best: the best by validation stays beside them.
        searching: its retrievers.
    """

    trained: Sequence[Trained]
    server: Server
    reference: Model | None
    gpus_per_node: int
    nodes: int
    rows: int
    image_tokens: int
    agents: int
    images: int
    kept: int | None
    best: bool = False
    searching: Sequence[Searching] = ()
