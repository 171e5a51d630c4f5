"""`docagent-rl index`: build, search and serve indexes."""

import json
import math
import os
import time
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force
from docagent_rl.base.section import read_yaml, validated
from docagent_rl.base.text import counted, shown
from docagent_rl.commands.ingest import check_command, update_indexes
from docagent_rl.commands.options import StoreFolder, argument, option
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.endpoints.http_client import read_api_key
from docagent_rl.retrieval.bm25 import BM25Settings
from docagent_rl.retrieval.config import (
    Backend,
    QueryEncoderConfig,
    RerankConfig,
    RetrieverConfig,
    SearchEngine,
)
from docagent_rl.retrieval.index_files import index_kind
from docagent_rl.retrieval.indexes import Encoding, build_bm25, build_vectors, open_index
from docagent_rl.retrieval.opening import open_local
from docagent_rl.retrieval.tokens import Stemmer
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm

app = typer.Typer(help="Build, search and serve indexes of a document store.", no_args_is_help=True)

_SNIPPET_CHARACTERS = 160
_DEFAULTS = BM25Settings()

IndexOption = Annotated[Path, typer.Option(help="Folder of the index.")]


@app.command("build")
def build_command(
    store: StoreFolder,
    out: Path = option(..., "Folder of the index."),
    model: str | None = option(
        None,
        "Build an index of vectors: a name from `index models`, or an encoder's file or folder.",
    ),
    checkpoint: str | None = option(
        None, "Folder of the model's weights, if they are not to come from the Hugging Face hub."
    ),
    device: str | None = option(None, "Torch device, such as cpu, cuda or cuda:1; default: cpu."),
    batch_size: int | None = option(None, "Pages per batch; default: 8, on a GPU 64.", min=1),
    threads: int | None = option(None, "Torch threads on the CPU; default: one.", min=1),
    ray: str | None = option(
        None, "Encode on a Ray cluster: HOST:PORT, or 'auto'.", metavar="ADDRESS"
    ),
    encoders: int = option(1, "With --ray: number of actors, each with the model.", min=1),
    gpus: float = option(0.0, "With --ray: GPUs per actor.", min=0),
    k1: float = option(
        _DEFAULTS.k1, "BM25 k1: how slowly a repeated term stops adding to the score.", min=0
    ),
    b: float = option(_DEFAULTS.b, "BM25 b: how much long pages are discounted.", min=0, max=1),
    stemmer: Stemmer = option(
        _DEFAULTS.stemmer, "BM25 stemmer; use none for languages other than English."
    ),
    engine: SearchEngine = option(
        SearchEngine.EMBEDDED, "Where vectors are stored; qdrant and lancedb are optional extras."
    ),
    url: str | None = option(
        None, "Address of the engine, such as http://host:6333 or s3://bucket/folder."
    ),
    token_env: str | None = option(
        None, "Environment variable with the token for the engine's server."
    ),
    pool: int = option(
        1,
        "Late interaction: how many vectors of a page are pooled into one; 3 loses little.",
        min=1,
    ),
    precision: Precision = option(
        Precision.BFLOAT16, "Number format of the vectors in an embedded index."
    ),
    force: Force = False,
) -> None:
    """Build an index of all pages: BM25 over words, or with --model an index of vectors.

    An existing index is updated, and readers use the old one until then. BM25 is rebuilt, which
    takes seconds; of vectors, only new and changed documents are encoded. An index with other
    settings or another model is replaced only with --force. An interrupted build resumes.

    Example: docagent-rl index build --store data/store --out data/minilm --model minilm
    """
    documents = DocumentStore(store)
    where: dict[str, Any] = {}
    if engine is not SearchEngine.EMBEDDED:
        where = {"engine": engine, "url": url, "token_env": token_env}
    words = BM25Settings(k1=k1, b=b, stemmer=stemmer)
    encoding = Encoding(device, batch_size, threads, checkpoint, ray, encoders, gpus)
    form = VectorForm(pooled=pool, precision=precision)
    if model is None:
        if where or form != VectorForm() or encoding != Encoding():
            raise UserError(
                "a BM25 index takes only --k1, --b and --stemmer; the other options are for "
                "vectors: name their model with --model"
            )
        built = build_bm25(documents, out, words, force=force)
    else:
        if words != _DEFAULTS:
            raise UserError(
                "--k1, --b and --stemmer are for BM25, but --model builds an index of vectors"
            )
        began = time.monotonic()
        try:
            built = build_vectors(
                documents, out, model, encoding=encoding, form=form, force=force, **where
            )
        except KeyboardInterrupt:
            typer.echo(
                "stopped: run the same command again to encode the pages that are missing", err=True
            )
            # a normal exit would wait for the forward pass and for pages that are being decoded;
            # the files on disk are complete at any time
            os._exit(130)
        if built.new:
            pace = built.new / (time.monotonic() - began)
            typer.echo(f"{counted(built.new, 'page')} encoded, {pace:.1f} a second")
    if not built.new:
        typer.echo(f"{out}: unchanged")
        return
    note = f"; {built.blank} of them have no text and will never be found" if built.blank else ""
    typer.echo(
        f"{counted(built.pages, 'page')} of {counted(built.documents, 'document')} indexed{note}"
    )


@app.command("update")
def update_command(
    indexes: list[Path] = argument(..., "Folders of indexes.", metavar="INDEX..."),
    *,
    store: StoreFolder,
    checkpoint: str | None = option(
        None, "Folder of the model, if not the one recorded in the index."
    ),
    device: str | None = option(None, "Torch device, such as cpu, cuda or cuda:1; default: cpu."),
    ray: str | None = option(
        None, "Encode on a Ray cluster: HOST:PORT, or 'auto'.", metavar="ADDRESS"
    ),
    encoders: int = option(1, "With --ray: number of actors, each with the model.", min=1),
    gpus: float = option(0.0, "With --ray: GPUs per actor.", min=0),
) -> None:
    """Update indexes of any kind to a store, each with the model or settings it was built with.

    Searches and servers use the old index until the new one is complete; `index serve` then
    switches to it. An index that already matches the store is left as it is, and its model is not
    loaded.

    Example: docagent-rl index update data/bm25 data/minilm --store data/store
    """
    encoding = Encoding(device, None, None, checkpoint, ray, encoders, gpus)
    update_indexes(store, indexes, encoding)


@app.command("models")
def models_command() -> None:
    """List the models that `index build --model` and `index search --rerank` know by name.

    Example: docagent-rl index models
    """
    from docagent_rl.retrieval.encoders.spec import MODELS
    from docagent_rl.retrieval.rerank.spec import RERANKERS

    table = Table("Name", "Model", "Reads", "Vectors of a page", "Systems")
    for name, known in MODELS.items():
        spec = known.spec
        vectors = "one, or one a passage"
        if spec.family.late_interaction:
            vectors = "one a token" if spec.content is PageContent.TEXT else "one a patch"
        systems = ", ".join(sorted({use["system"] for use in known.uses}))
        table.add_row(name, spec.model, spec.content.value, f"{vectors}, {known.dim}", systems)
    Console().print(table)
    rerankers = Table("Reranker", "Model", "Reads", "Family")
    for name, each in RERANKERS.items():
        rerankers.add_row(name, each.model, each.content.value, each.family.value)
    Console().print(rerankers)


@app.command("info")
def info_command(index: IndexOption) -> None:
    """Show the contents of an index, and the model and settings it was built with.

    Example: docagent-rl index info --index data/minilm
    """
    table = Table(show_header=False)
    for name, value in open_index(index).info().items():
        table.add_row(name, shown(value if isinstance(value, str) else json.dumps(value)))
    Console().print(table)


@app.command("check")
def check_index_command(
    index: IndexOption,
    store: Path | None = option(None, "Compare with the pages of this document store."),
) -> None:
    """Verify every file of an index, and with --store that it matches the documents there.

    Example: docagent-rl index check --index data/minilm --store data/store
    """
    check_command([index])
    if store is not None:
        open_index(index).check(DocumentStore(store))
        typer.echo(f"it matches {store} as it is now")


@app.command("search")
def search_command(
    query: str = argument(..., "Query text."),
    *,
    index: IndexOption,
    store: StoreFolder,
    doc: str | None = option(None, "Search this document only."),
    top_k: int = option(10, "Number of pages at most."),
    checkpoint: str | None = option(
        None, "Folder of the model, if not the one recorded in the index."
    ),
    device: str | None = option(None, "Torch device, such as cpu or cuda; default: cpu."),
    rerank: str | None = option(
        None, "Rerank the best pages: a name from `index models`, or a reranker's file."
    ),
    candidates: int = option(50, "Pages that the reranker scores.", min=1),
) -> None:
    """Search an index of any kind and show the pages found.

    With --rerank, the column Before shows each page's rank before reranking.

    Example: docagent-rl index search "net revenue 2023" --index data/bm25 --store data/store
    --top-k 5
    """
    documents = DocumentStore(store)
    encoder = QueryEncoderConfig(model=checkpoint, device=device)
    reranking = (
        None if rerank is None else RerankConfig(model=rerank, candidates=candidates, device=device)
    )
    config = RetrieverConfig(
        kind=index_kind(index) or "bm25", index=index, encoder=encoder, rerank=reranking
    )
    (hits,) = open_local(config, documents).search([query], doc_id=doc, top_k=top_k)
    if not hits:
        typer.echo("No page matches.")
        return
    table = Table("#", "Page", "Score", *(["Before"] if rerank else []), "Text")
    for rank, hit in enumerate(hits, start=1):
        before = [] if hit.first_stage is None else [str(hit.first_stage.rank)]
        snippet = " ".join(documents.page(hit.ref).text().split())[:_SNIPPET_CHARACTERS]
        table.add_row(
            str(rank), shown(hit.ref, overflow="fold"), f"{hit.score:.3f}", *before, shown(snippet)
        )
    Console().print(table)


@app.command("serve")
def serve_command(
    store: StoreFolder,
    index: Path | None = option(None, "Folder of the index."),
    settings: Path | None = option(None, "YAML file with the keys of docagent.retriever."),
    host: str = option("127.0.0.1", "Address to listen at; 0.0.0.0 for other machines."),
    port: int = option(0, "Port; 0 picks a free one.", min=0, max=65535),
    token_env: str | None = option(
        None, "Environment variable with the token that clients must send."
    ),
    allow_host: list[str] | None = option(
        None, "Without a token: another host name that clients may use."
    ),
    max_waiting: int = option(256, "Queries that may wait; further ones get HTTP 503.", min=1),
    threads: int = option(8, "Number of searches at the same time.", min=1),
    deadline_s: float = option(30.0, "Maximum seconds for a search, waiting included.", min=0.1),
) -> None:
    """Serve searches over HTTP until interrupted.

    When the index on disk is replaced or updated, the server opens it and answers from it without
    interruption. An index that does not match the store is served with a warning, because its
    update may be under way.

    Example: docagent-rl index serve --index data/bm25 --store data/store --port 8002
    """
    from docagent_rl.endpoints.serving import listen, run, url_of
    from docagent_rl.retrieval.base import StaleIndexError
    from docagent_rl.retrieval.opening import open_local
    from docagent_rl.retrieval.service.app import describe_index, make_search_app
    from docagent_rl.retrieval.service.following import FollowingRetriever, Opened
    from docagent_rl.retrieval.service.host import SearchHost

    token = None if token_env is None else read_api_key(token_env, "--token-env")
    config = _config(settings, index)
    key = "--settings" if settings else "-"

    def opened() -> Opened:
        # a reranker also reads pages that are still in the index but no longer in the store
        documents = DocumentStore(store, manifests=math.inf)
        stale = False
        try:
            retriever = open_local(config, documents, key)
        except StaleIndexError as error:
            typer.echo(f"serving the old index until it is updated: {error}", err=True)
            retriever = open_local(config, documents, key, stale=True)
            stale = True
        info = describe_index(retriever, documents, kind=config.kind, stale=stale)
        return Opened(retriever, info)

    following = FollowingRetriever(opened, [folder for _, folder in config.indexes(key)])
    hosted = SearchHost(following, threads=threads, max_waiting=max_waiting, deadline_s=deadline_s)
    if token is None and host not in ("localhost", "127.0.0.1", "::1"):
        typer.echo(
            f"--host {host}: everyone who can reach this machine can search; --token-env requires "
            "a token",
            err=True,
        )
    app = make_search_app(
        hosted, lambda: following.info, token=token, names=(host, *(allow_host or ()))
    )
    listener = listen(host, port)
    info = following.info
    typer.echo(f"{info.pages} pages of {info.documents} documents at {url_of(listener)}")
    run(app, listener)


def _config(settings: Path | None, index: Path | None) -> RetrieverConfig:
    """Return the retriever's section, from `settings` if given; `index` overrides its index."""
    given: dict[str, Any] = {} if index is None else {"index": index}
    if settings is not None:
        given = read_yaml(settings, "kind: bm25") | given
    elif index is not None:
        given["kind"] = index_kind(index)
    config = validated(RetrieverConfig, given, str(settings or "retriever"))
    if config.backend is not Backend.LOCAL:
        raise UserError(
            f"--settings {settings}: backend must be local, since this server runs the searches"
        )
    return config
