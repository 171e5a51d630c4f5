"""Indexes that a demo's runs read beside that of words, and tiny retrieval models to make them with."""

from __future__ import annotations

from pathlib import Path

import yaml

from docagent_rl.base.io import atomic_write
from docagent_rl.documents import DocumentStore
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.encoders.models import SPEC_FILE
from docagent_rl.retrieval.encoders.spec import EncoderSpec, Family
from docagent_rl.retrieval.indexes import build_vectors

PREFIX = "tiny_"
_PIXELS = 64 * 28 * 28
"""Of a page before a tiny model: 64 patches."""


def place_of(config: RetrieverConfig, paths: DemoPaths) -> Path:
    """Where the demo makes the index of a retriever."""
    if config.model is None:
        return paths.index
    return paths.index_of(Path(config.model).name.split("-v")[0].replace(".", "_").replace("-", "_"))


def make_index(config: RetrieverConfig, paths: DemoPaths, *, progress: bool = False) -> None:
    """Make what is missing of a retriever's index of vectors, and of its model where that is a tiny one.

    Args:
        config: of a retriever whose index is at `place_of`.
        paths: of a workspace of the demo's.
        progress: show a bar.

    Raises:
        UserError: the model is not there, or another index is.
    """
    assert config.model is not None
    assert config.index is not None
    model = Path(config.model)
    if model.parent == paths.models and not (model / SPEC_FILE).is_file():
        make_retriever(model)
    build_vectors(DocumentStore(paths.store), config.index, config.model, progress=progress)


def make_retriever(folder: Path) -> None:
    """A tiny model over page images with random weights, with its specification beside it.

    Args:
        folder: of the model; its name is `tiny_` and the family, such as `tiny_colqwen2`.
    """
    from docagent_rl.lab.tiny.retrievers import TinyRetriever, build_retriever

    family = Family(folder.name.removeprefix(PREFIX))
    build_retriever(TinyRetriever(family.value), folder)
    spec = EncoderSpec.model_validate(
        {"family": family, "model": str(folder), "content": family.contents[0], "max_pixels": _PIXELS}
    )
    kept = spec.model_dump(mode="json", include={"family", "content", "max_pixels"})
    atomic_write(folder / SPEC_FILE, yaml.safe_dump(kept))
