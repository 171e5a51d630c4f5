"""Indexes of any kind: build, update, open and audit them."""

from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import remove_leftovers
from docagent_rl.base.text import counted
from docagent_rl.documents.audit import Audit, Damage
from docagent_rl.documents.store import DocumentStore
from docagent_rl.retrieval.base import StaleIndexError
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.encoders.devices import CPU
from docagent_rl.retrieval.encoders.opening import open_encoder
from docagent_rl.retrieval.encoders.spec import EncoderSpec, named_spec
from docagent_rl.retrieval.engines.build import build_collection
from docagent_rl.retrieval.engines.collection import CollectionIndex
from docagent_rl.retrieval.index_files import HEADER, IndexFiles, index_engine, index_kind
from docagent_rl.retrieval.vectors.build import BuiltIndex, build_index
from docagent_rl.retrieval.vectors.encoding import PageVectors, RayVectors
from docagent_rl.retrieval.vectors.index import VectorIndex, VectorKind
from docagent_rl.retrieval.vectors.smaller import VectorForm

_ON_CPU = 8
_ON_GPU = 64


@dataclass(frozen=True, slots=True)
class Encoding:
    """Place and manner of encoding pages, which affect the speed but not the index."""

    device: str | None = None
    batch_size: int | None = None
    """Pages or passages per batch; None: 8 on the CPU and 64 on a GPU. Halved if memory runs out.
    """
    threads: int | None = None
    checkpoint: str | None = None
    """The model's folder, if not the one in its specification."""
    ray: str | None = None
    """Address of a Ray cluster that encodes, or `auto`; None: this process."""
    encoders: int = 1
    """Number of actors on the cluster, each with a copy of the model."""
    gpus: float = 0.0
    """GPUs per actor."""


def build_bm25(
    store: DocumentStore, out: Path, settings: BM25Settings, *, force: bool = False
) -> BuiltIndex:
    """Build a BM25 index of all pages in a folder, unless the index there matches the store.

    An index of other pages is replaced. An index with other settings, a damaged one or one of
    vectors is only replaced with `force`.

    Raises:
        UserError: Such an index exists and `force` is not set, or no page has text.
    """
    if not force and (out / HEADER).is_file():
        found = _existing_bm25(out, settings)
        with suppress(StaleIndexError):
            found.check(store)
            remove_leftovers(out)
            IndexFiles(out).sweep_retired()
            return BuiltIndex(found.num_pages, len(store), 0)
    retriever = BM25Retriever.build(store, settings=settings)
    retriever.save(out)
    pages = map(store.page, store.pages())
    blank = sum(page.text_hash is None and page.described_hash is None for page in pages)
    return BuiltIndex(retriever.num_pages, len(store), retriever.num_pages, blank)


def build_vectors(
    store: DocumentStore,
    out: Path,
    model: str,
    *,
    encoding: Encoding | None = None,
    form: VectorForm | None = None,
    force: bool = False,
    **where: Any,
) -> BuiltIndex:
    """Build an index of vectors in a folder, or update the one that is there.

    Args:
        store: the documents.
        out: folder of the index.
        model: the encoder, for `encoders.spec.named_spec`.
        encoding: where and how to encode pages.
        form: form of the stored vectors; by default as the model makes them.
        force: replace an index of another model or form, or a damaged one.
        where: arguments of `build_collection` that name an engine; by default, the vectors are
            stored in the folder.

    Raises:
        UserError: There is no such model, or the folder contains another or a damaged index.
        InfrastructureError: A node of the cluster or the encoder fails.
    """
    spec = named_spec(model)
    return _build_vectors(
        store, out, spec, encoding or Encoding(), form or VectorForm(), force=force, **where
    )


def update_index(store: DocumentStore, root: Path, encoding: Encoding | None = None) -> BuiltIndex:
    """Update an index of any kind to a store, with the model and settings of its build.

    Readers use the old index until the new one is complete. If the index matches the store already,
    its model is not opened.

    Raises:
        UserError: There is no index, it is damaged, or its model is missing.
        InfrastructureError: A node of the cluster, the encoder or the engine fails.
    """
    index = open_index(root)
    try:
        index.check(store)
    except StaleIndexError:
        if isinstance(index, BM25Retriever):
            return build_bm25(store, root, index.settings)
        header = index.header
        where: dict[str, Any] = {}
        if isinstance(index, CollectionIndex):
            where = index.header.model_dump(include={"engine", "url", "token_env"})
        spec = EncoderSpec.read(header.spec)
        return _build_vectors(store, root, spec, encoding or Encoding(), header.form, **where)
    if not isinstance(index, CollectionIndex):
        IndexFiles(root).sweep_retired()
    return BuiltIndex(int(str(index.info()["pages"])), len(store), 0, changed=False)


def _build_vectors(
    store: DocumentStore,
    out: Path,
    spec: EncoderSpec,
    encoding: Encoding,
    form: VectorForm,
    *,
    force: bool = False,
    **where: Any,
) -> BuiltIndex:
    if encoding.checkpoint is not None:
        spec = spec.model_copy(update={"model": encoding.checkpoint, "revision": None})
    kind = VectorKind.LATE_INTERACTION if spec.family.late_interaction else VectorKind.DENSE
    if form.pooled > 1 and kind is VectorKind.DENSE:
        raise UserError(
            f"{spec.model} has only one vector per page or passage, so there is nothing to pool"
        )
    build = partial(build_collection, **where) if where else build_index
    with _vectors(spec, encoding) as vectors:
        return build(store, vectors, out, kind=kind, form=form, replace=force)


@contextmanager
def _vectors(spec: EncoderSpec, encoding: Encoding) -> Generator[PageVectors]:
    """Yield the encoder, in this process or on a cluster from which it is then disconnected."""
    make = partial(
        open_encoder,
        spec,
        device=encoding.device,
        batch_size=encoding.batch_size or (_ON_CPU if encoding.device in (None, CPU) else _ON_GPU),
        threads=encoding.threads,
    )
    if encoding.ray is None:
        yield PageVectors(make)
        return
    import ray

    from docagent_rl.documents.ray_pool import connect_ray

    connected = connect_ray(encoding.ray)
    try:
        yield RayVectors(make, encoders=encoding.encoders, num_gpus=encoding.gpus)
    finally:
        if connected:
            ray.shutdown()


def _existing_bm25(root: Path, settings: BM25Settings) -> BM25Retriever:
    """Return the BM25 index in a folder, which must have been built with these settings."""
    try:
        found = BM25Retriever.load(root)
    except UserError as error:
        raise UserError(
            f"{root} contains another index ({error}): replace it with --force"
        ) from error
    if found.settings != settings:
        raise UserError(
            f"{root} contains an index with other settings: replace it with --force or name "
            "another folder"
        )
    return found


def audit_index(root: Path) -> Audit:
    """Read every file of an index of any kind, up to the first damaged one.

    Raises:
        UserError: The folder is not an index.
    """
    files = IndexFiles(root.absolute())
    try:
        index = open_index(files.root)
    except UserError as error:
        if not files.header.is_file():
            raise
        return Audit("an index that cannot be used", [Damage(files.header, str(error))])
    info = index.info()
    problems = index.problems() if isinstance(index, CollectionIndex) else []
    found = [Damage(files.header, problem) for problem in problems]
    return Audit(f"an index of {counted(int(str(info['pages'])), 'page')} ({info['kind']})", found)


def open_index(root: Path) -> BM25Retriever | VectorIndex | CollectionIndex:
    """Open an index of any kind.

    Raises:
        UserError: There is none, or it is damaged.
    """
    if index_engine(root) is not SearchEngine.EMBEDDED:
        return CollectionIndex.open(root)
    if index_kind(root) in tuple(VectorKind):
        return VectorIndex.open(root)
    return BM25Retriever.load(root)
