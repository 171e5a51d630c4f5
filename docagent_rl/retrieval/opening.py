"""Opening of configured retrievers, by kind and backend."""

from collections.abc import Callable, Mapping
from functools import partial

from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import described, load_attribute
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.base import Retriever
from docagent_rl.retrieval.bm25 import open_bm25
from docagent_rl.retrieval.config import KEY, Backend, RetrieverConfig
from docagent_rl.retrieval.hybrid import HybridPart, HybridRetriever
from docagent_rl.retrieval.rerank.retriever import with_reranker
from docagent_rl.retrieval.service.client import HttpRetriever
from docagent_rl.retrieval.service.ray_actors import Opener, RayRetriever
from docagent_rl.retrieval.vectors.index import VectorKind
from docagent_rl.retrieval.vectors.retriever import open_pages


def open_retriever(
    config: RetrieverConfig, store: DocumentStore, key: str = KEY, *, stale: bool = False
) -> Retriever:
    """Open a configured retriever on its backend; `key` is the section's key, for messages.

    With `stale`, indexes that this process opens need not match the store's current state.

    Raises:
        UserError: There is no such retriever, its index does not match the store, or a token is
            missing.
        InfrastructureError: Ray does not run (`backend: ray`).
    """
    if config.backend is Backend.HTTP:
        return with_reranker(HttpRetriever(config, store, key), config, store, key)
    if config.backend is Backend.RAY:
        return RayRetriever(config, store, key, open_local)
    return open_local(config, store, key, stale=stale)


def open_local(
    config: RetrieverConfig, store: DocumentStore, key: str = KEY, *, stale: bool = False
) -> Retriever:
    """Open a configured retriever in this process, whatever its `backend`; see `open_retriever`."""
    return with_reranker(_open_kind(config, store, key, stale=stale), config, store, key)


def _open_kind(
    config: RetrieverConfig, store: DocumentStore, key: str, *, stale: bool = False
) -> Retriever:
    if ":" in config.kind:
        return _open_own_class(config, store, key)
    if config.kind not in _KINDS:
        raise UserError(
            f"{key}.kind={config.kind}: known kinds are {', '.join(sorted(_KINDS))}, or name a "
            "class of your own as package.module:CLASS"
        )
    return _KINDS[config.kind](config, store, key, stale=stale)


def open_before_run(config: RetrieverConfig, store: DocumentStore, key: str = KEY) -> Retriever:
    """Open a retriever before Ray runs, to check it: without its actors, and without their models.

    Raises:
        UserError: As for `open_retriever`.
    """
    if config.backend is Backend.LOCAL and config.parts:
        return with_reranker(
            open_hybrid(config, store, key, opener=open_before_run), config, store, key
        )
    if config.backend is not Backend.RAY:
        return open_retriever(config, store, key)
    if config.kind in tuple(VectorKind):
        retriever: Retriever = open_pages(config, store, key, late=True)
    else:
        retriever = _open_kind(config, store, key)
    return with_reranker(retriever, config, store, key, late=True)


def open_hybrid(
    config: RetrieverConfig,
    store: DocumentStore,
    key: str = KEY,
    *,
    opener: Opener | None = None,
    stale: bool = False,
) -> HybridRetriever:
    """Open a hybrid; each part is opened on its own `backend` by `opener` or `open_retriever`.

    Raises:
        UserError: It has no parts, or one cannot be opened.
    """
    if not config.parts:
        raise UserError(f"{key}.parts is empty, but a retriever of kind hybrid combines its parts")
    opener = opener or partial(open_retriever, stale=stale)
    parts = {
        name: HybridPart(
            opener(part, store, f"{key}.parts.{name}"), part.weight or _WEIGHTS.get(part.kind, 1.0)
        )
        for name, part in config.parts.items()
    }
    return HybridRetriever(parts, depth=config.depth)


def start_search_actors(
    configs: Mapping[str, RetrieverConfig], open_store: Callable[[], DocumentStore]
) -> list[RayRetriever]:
    """Start the search actors of all retrievers and of their parts, if there are any.

    Other processes of the run use them, too. They end with this process, or when the clients that
    are returned are gone.

    Raises:
        UserError: There is no store.
        InfrastructureError: An actor does not start, or not in time.
    """
    # parts first, since actors start those of their own parts if there are none
    sections = [each for key, config in configs.items() for each in reversed([*config.flat(key)])]
    in_actors = [(key, config) for key, config in sections if config.backend is Backend.RAY]
    if not in_actors:
        return []
    store = open_store()
    return [RayRetriever(config, store, key, open_local) for key, config in in_actors]


def search_servers(
    configs: Mapping[str, RetrieverConfig], store: DocumentStore
) -> dict[str, HttpRetriever]:
    """Return clients for all search servers of retrievers and of their parts, by key.

    Raises:
        UserError: An address or a token is missing.
    """
    clients = {}
    for section, whole in configs.items():
        for key, config in whole.flat(section):
            if config.backend is Backend.HTTP:
                clients[key] = HttpRetriever(config, store, key)
    return clients


_WEIGHTS: dict[str, float] = {"bm25": 1.5}
"""Default weights of a hybrid's parts by kind; 1 for others. See docs/retrieval.md."""
_KINDS: dict[str, Callable[..., Retriever]] = {
    "bm25": open_bm25,
    "hybrid": open_hybrid,
    "dense": open_pages,
    "late_interaction": open_pages,
}


def _open_own_class(config: RetrieverConfig, store: DocumentStore, key: str) -> Retriever:
    named = f"{key}.kind={config.kind}"
    made = load_attribute(config.kind, named)
    try:
        retriever = made(**{"store": store, "index": config.index, **config.options})
    except UserError:
        raise
    except Exception as error:  # a user's class may raise anything
        raise UserError(f"{named} cannot be created: {described(error)}") from error
    if not callable(getattr(retriever, "search", None)):
        raise UserError(f"{named} has no method search: see docagent_rl.retrieval.Retriever")
    return retriever
