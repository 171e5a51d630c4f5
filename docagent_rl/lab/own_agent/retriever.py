"""The indexes that an agent's searches read, and the commands that build them."""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from docagent_rl.checks.recipe_list import ROOT

_GROUP = "retriever"
_WORKSPACE = "${docagent.workspace}/"
SERVED = ("qdrant",)
"""Retrievers whose vectors are on a server of the user."""
OF_DEMO = ("tiny_colqwen2",)
"""Retrievers whose model only the demo makes."""


@dataclass(frozen=True, slots=True)
class NeededIndex:
    """An index of the store."""

    folder: str
    """Its path in the workspace."""
    model: str | None
    """The model of its vectors: a name of `docagent-rl index models`, or a path; `None`: BM25."""
    engine: str | None = None


def retriever_names() -> list[str]:
    """Return the sorted retrievers that a chain can build."""
    files = (path.name for path in (ROOT / _GROUP).iterdir())
    names = sorted(name.removesuffix(".yaml") for name in files if name.endswith(".yaml"))
    return [name for name in names if name not in (*SERVED, *OF_DEMO)]


def retriever_section(name: str) -> dict[str, Any]:
    """Return the keys that `+retriever=NAME` sets."""
    return yaml.safe_load((ROOT / _GROUP / f"{name}.yaml").read_text(encoding="utf-8"))


def needed_indexes(section: Mapping[str, Any], workspace: Path) -> Iterator[NeededIndex]:
    """Yield the indexes that a retriever's section names, with those of its parts."""
    if section.get("index"):
        model = section.get("model")
        if model is not None:
            model = str(model).replace(_WORKSPACE, f"{workspace}/")
        folder = str(section["index"]).removeprefix(_WORKSPACE)
        yield NeededIndex(folder, model, (section.get("engine") or {}).get("kind"))
    for part in (section.get("parts") or {}).values():
        yield from needed_indexes(part, workspace)


def building_command(index: NeededIndex, store: Path, folder: Path, *, on_gpu: bool) -> str:
    """Return the command that builds an index, or updates it to its store."""
    words = ["docagent-rl", "index", "build", "--store", str(store), "--out", str(folder)]
    if index.model is not None:
        words += ["--model", index.model]
        if on_gpu:
            words += ["--device", "cuda"]
    if index.engine is not None:
        words += ["--engine", index.engine]
    return shlex.join(words)
