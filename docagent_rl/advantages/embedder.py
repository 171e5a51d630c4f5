"""Sessions as vectors, for estimators that compare them (SPO)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from docagent_rl.config import EmbedderConfig
from docagent_rl.errors import UserError

WHEEL = "wheel:"
"""Prefix of a model that lies inside an installed package with a function `get_model_path`."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """The vectors of some texts.

    Attributes:
        vectors: (n, d) float32, of length 1; zero for an empty text.
        shortened: how many texts lost their middle.
    """

    vectors: np.ndarray
    shortened: int


class Embedder:
    """Loads the model once; equal texts are embedded once a call.

    Args:
        config: which model.

    Raises:
        UserError: the model cannot be loaded.
    """

    def __init__(self, config: EmbedderConfig):
        from sentence_transformers import SentenceTransformer

        self._config = config
        try:
            self._model = SentenceTransformer(model_path(config), device=config.device)
        except (OSError, ValueError) as error:
            raise UserError(f"docagent.advantage.embedder.model={config.model}: {error}") from error
        self._model.eval()
        limit = self._model.max_seq_length or config.max_tokens
        # the model adds a token at each end
        self._room = min(config.max_tokens, limit) - 2

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Vectors of texts, in order."""
        cut = [self._shortened(text) for text in texts]
        distinct = sorted({text for text in cut if text.strip()})
        size = self._model.get_embedding_dimension()
        table = np.zeros((len(distinct) + 1, size), dtype=np.float32)
        if distinct:
            table[1:] = self._model.encode(
                distinct,
                batch_size=self._config.batch_size,
                normalize_embeddings=True,
                show_progress_bar=False,
                convert_to_numpy=True,
            )
        place = {text: number for number, text in enumerate(distinct, 1)}
        vectors = table[[place.get(text, 0) for text in cut]]
        return Embedded(vectors, sum(a != b for a, b in zip(cut, texts, strict=True)))

    def _shortened(self, text: str) -> str:
        """The text without its middle, if it has more tokens than the model takes."""
        tokenizer = self._model.tokenizer
        ids = tokenizer.encode(text, add_special_tokens=False, verbose=False)
        if len(ids) <= self._room:
            return text
        # decoding and encoding again can add a few tokens at the seam
        head, tail = self._room // 2 - 2, self._room - self._room // 2 - 2
        return f"{tokenizer.decode(ids[:head])} {tokenizer.decode(ids[-tail:])}"


class FunctionEmbedder:
    """Vectors that a user's function supplies.

    Args:
        config: with `function`.

    Raises:
        UserError: there is no such function.
    """

    def __init__(self, config: EmbedderConfig):
        self._name, self._function = config.function, supplied(config.function)

    def embed(self, texts: Sequence[str]) -> Embedded:
        """Vectors of texts, in order.

        Raises:
            UserError: the function returns something else than one finite vector a text.
        """
        vectors = np.asarray(self._function(list(texts)), dtype=np.float32)
        if vectors.ndim != 2 or len(vectors) != len(texts) or not np.isfinite(vectors).all():
            raise UserError(
                f"docagent.advantage.embedder.function={self._name} returned shape {vectors.shape} "
                f"for {len(texts)} texts: return one vector of finite numbers for each"
            )
        return Embedded(vectors, 0)


def embedder_class(config: EmbedderConfig) -> type[Embedder] | type[FunctionEmbedder]:
    """What embeds under this configuration."""
    return Embedder if config.function is None else FunctionEmbedder


def check_embedder(config: EmbedderConfig) -> None:
    """Look for what can be found without loading or fetching a model.

    Raises:
        UserError: it is not there.
    """
    if config.function is not None:
        supplied(config.function)
    elif config.model.startswith(WHEEL):
        model_path(config)


def supplied(name: str) -> Callable[[list[str]], np.ndarray]:
    """The function `package.module:function`.

    Raises:
        UserError: there is none.
    """
    module, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UserError(f"docagent.advantage.embedder.function={name} cannot be imported: {error}") from error


def model_path(config: EmbedderConfig) -> str:
    """What sentence-transformers can load.

    Raises:
        UserError: the package of a `wheel:` model is not installed, or holds none.
    """
    if not config.model.startswith(WHEEL):
        path = Path(config.model).expanduser()
        return str(path) if path.exists() else config.model
    package = config.model.removeprefix(WHEEL)
    try:
        return str(importlib.import_module(package).get_model_path())
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"docagent.advantage.embedder.model={config.model}: there is no package {package!r} with a model"
        ) from error
