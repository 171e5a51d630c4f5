"""Opens the retriever of a configuration where its searches are to run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.config import Backend, RetrieverConfig
from docagent_rl.retrieval.registry import open_local

if TYPE_CHECKING:
    from docagent_rl.retrieval.service.client import HttpRetriever

KEY = "docagent.retriever"
VECTORS = ("dense", "late_interaction")
"""Kinds that read a model."""


def open_retriever(config: RetrieverConfig, store: DocumentStore, key: str = KEY) -> Retriever:
    """The retriever of a configuration, by its backend.

    Args:
        config: of it.
        store: the documents that it finds pages of.
        key: of the section, for messages.

    Raises:
        UserError: there is no such retriever, its index is not that of the store, or a token is missing.
        InfrastructureError: Ray does not run (`backend: ray`).
    """
    if config.backend is Backend.HTTP:
        from docagent_rl.retrieval.service.client import HttpRetriever

        return HttpRetriever(config, store, key)
    if config.backend is Backend.RAY:
        from docagent_rl.retrieval.service.ray_client import RayRetriever

        return RayRetriever(config, store, key)
    return open_local(config, store, key)


def search_servers(configs: Mapping[str, RetrieverConfig], store: DocumentStore) -> dict[str, HttpRetriever]:
    """Clients of all servers that retrievers ask, parts of hybrids included, by key.

    Raises:
        UserError: an address or a token is missing.
    """
    from docagent_rl.retrieval.service.client import HttpRetriever

    return {
        key: HttpRetriever(config, store, key)
        for section, whole in configs.items()
        for key, config in whole.flat(section)
        if config.backend is Backend.HTTP
    }


def open_before_run(config: RetrieverConfig, store: DocumentStore, key: str = KEY) -> Retriever:
    """The same before Ray runs: what actors will open is opened here.

    Raises:
        UserError: as `open_retriever`; or the retriever cannot be split as the configuration says.
    """
    if config.backend is Backend.LOCAL and config.parts:
        from docagent_rl.retrieval.hybrid import open_hybrid

        return open_hybrid(config, store, opener=open_before_run)
    if config.backend is not Backend.RAY:
        return open_retriever(config, store, key)
    from docagent_rl.retrieval.service.shards import check_parts

    if config.kind in VECTORS:
        from docagent_rl.retrieval.vectors.retriever import open_vectors

        # the actors read the model; here there may be no room for it
        retriever: Retriever = open_vectors(config, store, late=True)
    else:
        retriever = open_local(config, store, key)
    check_parts(retriever, config, key)
    return retriever
