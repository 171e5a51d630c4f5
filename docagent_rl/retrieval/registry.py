"""Kinds of retrievers, by name; each is imported when asked for."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import described, import_module, import_named_modules
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.config import RetrieverConfig

Opener = Callable[[RetrieverConfig, DocumentStore], Retriever]
"""Makes the retriever of a configuration, and sees that its index belongs to the store."""

_PACKAGE = __name__.rpartition(".")[0]
_KINDS: dict[str, str] = {
    "bm25": f"{_PACKAGE}.bm25:open_bm25",
    "dense": f"{_PACKAGE}.vectors.retriever:open_vectors",
    "late_interaction": f"{_PACKAGE}.vectors.retriever:open_vectors",
    "hybrid": f"{_PACKAGE}.hybrid:open_hybrid",
}
_INDEXED = ("bm25", "dense", "late_interaction")
_OWN: dict[str, Opener] = {}


def register(name: str) -> Callable[[Opener], Opener]:
    """Make a function known as `docagent.retriever.kind=<name>`.

    A module of your own is imported in every process of a run when `docagent.modules` names it. For a class
    that takes its arguments from `docagent.retriever.options`, no registration is needed:
    `docagent.retriever.kind=package.module:CLASS`.

    Raises:
        UserError: the name is taken.
    """

    def decorate(opener: Opener) -> Opener:
        taken = _OWN.get(name)
        if name in _KINDS or (taken is not None and _origin(taken) != _origin(opener)):
            raise UserError(f"a retriever of kind {name!r} is registered already: choose another name")
        _OWN[name] = opener
        return opener

    return decorate


def kinds() -> list[str]:
    """The names of all registered kinds, sorted."""
    return sorted({*_KINDS, *_OWN})


def open_local(config: RetrieverConfig, store: DocumentStore, key: str = "docagent.retriever") -> Retriever:
    """The retriever of a configuration, in this process.

    Args:
        config: of it; its `backend` is not looked at.
        store: the documents that it finds pages of.
        key: of the section, for messages.

    Raises:
        UserError: there is no such kind, or its index is missing, damaged, or of another store or model.
    """
    if ":" in config.kind:
        return _own_class(config, store, key)
    import_named_modules()
    opener = _OWN.get(config.kind)
    if opener is None:
        try:
            module, _, name = _KINDS[config.kind].partition(":")
        except KeyError:
            raise UserError(
                f"{key}.kind={config.kind}: known kinds are {', '.join(kinds())}, or name a class of your "
                "own as package.module:CLASS"
            ) from None
        opener = cast("Opener", getattr(importlib.import_module(module), name))
    if config.kind in _INDEXED:
        required_index(config, key)
    return opener(config, store)


def required_index(config: RetrieverConfig, key: str = "docagent.retriever") -> Path:
    """The folder of a retriever's index.

    Raises:
        UserError: the configuration names none.
    """
    if config.index is None:
        raise UserError(f"{key}.index is null, and a retriever of kind {config.kind} reads one")
    return config.index


def _own_class(config: RetrieverConfig, store: DocumentStore, key: str) -> Retriever:
    named = f"{key}.kind={config.kind}"
    module, _, name = config.kind.partition(":")
    made = getattr(import_module(module, named), name, None)
    if not callable(made):
        raise UserError(f"{named}: {module} has no class {name}")
    arguments: Mapping[str, Any] = {"store": store, "index": config.index, **config.options}
    try:
        retriever = made(**arguments)
    except UserError:
        raise
    except Exception as error:  # whatever a user's class raises
        raise UserError(f"{named} cannot be made: {described(error)}") from error
    if not callable(getattr(retriever, "search", None)):
        raise UserError(f"{named} has no method search: see docagent_rl.retrieval.Retriever")
    return retriever


def _origin(function: Opener) -> tuple[str, str]:
    return function.__module__, getattr(function, "__qualname__", repr(function))
