"""`docagent-rl index serve`: answer searches over HTTP."""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from pydantic import ValidationError

from docagent_rl.base.errors import UserError
from docagent_rl.base.section import explain, merged
from docagent_rl.documents import DocumentStore
from docagent_rl.endpoints.http_client import read_api_key
from docagent_rl.retrieval.config import Backend, RetrieverConfig, ServerApi
from docagent_rl.retrieval.index_files import index_kind

logger = logging.getLogger(__name__)
LOOPBACK = "127.0.0.1"


def serve_command(
    store: Annotated[Path, typer.Option(help="Folder of the document store.")],
    index: Annotated[Path | None, typer.Option(help="Folder of the index.")] = None,
    kind: Annotated[
        str | None, typer.Option(help="Of the retriever, as docagent.retriever.kind; by default the index's.")
    ] = None,
    settings: Annotated[
        Path | None,
        typer.Option(help="YAML file with the keys of docagent.retriever, for what has no option here."),
    ] = None,
    text_index: Annotated[
        Path | None, typer.Option(help="BM25 index that ranks page texts in ALDEN's API (recall_ocr).")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at; 0.0.0.0 for other machines.")] = LOOPBACK,
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: one that is free.")] = 0,
    token_env: Annotated[
        str | None, typer.Option(help="Name of the variable with the token that clients have to send.")
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            help="Without a token: a name under which clients may ask, beside this machine's and addresses."
        ),
    ] = None,
    api: Annotated[
        str, typer.Option(help="What to speak, with commas: native, vrag_rl, vrag_rl_faiss, alden.")
    ] = "native",
    max_waiting: Annotated[
        int, typer.Option(min=1, help="Queries that may wait; more are told to come again (503).")
    ] = 256,
    threads: Annotated[int, typer.Option(min=1, help="Searches at a time.")] = 8,
    deadline_s: Annotated[float, typer.Option(min=0.1, help="Seconds of a search, waiting included.")] = 30.0,
    image_folder: Annotated[
        str | None, typer.Option(help="What stands before the names of images in VRAG-RL's APIs.")
    ] = None,
) -> None:
    """Serve searches over HTTP until interrupted: our own API, and those of released servers.

    Example: docagent-rl index serve --index data/bm25 --store data/store --port 8002 --api native,vrag_rl
    """
    from docagent_rl.endpoints.serving import listen, run, url_of
    from docagent_rl.retrieval.opening import open_local
    from docagent_rl.retrieval.service.app import IMAGE_FOLDER, Served, describe_index, make_app
    from docagent_rl.retrieval.service.host import SearchHost

    apis = _apis(api)
    token = None if token_env is None else read_api_key(token_env, "--token-env")
    documents = DocumentStore(store)
    config = _config(settings, kind, index)
    retriever = open_local(config, documents, "--settings" if settings else "-")

    def hosted(opened: Any) -> SearchHost:
        return SearchHost(opened, threads=threads, max_waiting=max_waiting, deadline_s=deadline_s)

    texts = None
    if text_index is not None:
        texts = hosted(open_local(RetrieverConfig(kind="bm25", index=text_index), documents))
    info = describe_index(retriever, documents, kind=config.kind, max_waiting=max_waiting)
    served = Served(documents, hosted(retriever), info, texts, image_folder or IMAGE_FOLDER)
    if token is None and not _is_loopback(host):
        logger.warning(
            "--host %s: whoever reaches this machine may search; --token-env asks for a token", host
        )
    app = make_app(served, apis=apis, token=token, names=(host, *(allow_host or ())))
    listener = listen(host, port)
    spoken = ", ".join(each.value for each in apis)
    typer.echo(f"{info.pages} pages of {info.documents} documents at {url_of(listener)} ({spoken})")
    run(app, listener)


def _apis(text: str) -> tuple[ServerApi, ...]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [each.value for each in ServerApi]
    if unknown := [name for name in names if name not in known]:
        raise UserError(f"--api {unknown[0]}: known are {', '.join(known)}")
    if not names:
        raise UserError(f"--api: name at least one of {', '.join(known)}")
    return tuple(ServerApi(name) for name in dict.fromkeys(names))


def _config(settings: Path | None, kind: str | None, index: Path | None) -> RetrieverConfig:
    """Return the retriever's section: of the file, or of the options."""
    found = kind or (index_kind(index) if index is not None else "")
    given: dict[str, Any] = {"kind": found} if found and (kind or settings is None) else {}
    if index is not None:
        given["index"] = index
    if settings is not None:
        try:
            read = yaml.safe_load(settings.read_text(encoding="utf-8"))
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise UserError(f"--settings {settings}: cannot be read ({error})") from error
        if not isinstance(read, dict):
            raise UserError(f"--settings {settings}: has to hold the keys of docagent.retriever")
        given = merged(read, given)
    try:
        config = RetrieverConfig.model_validate(given)
    except ValidationError as error:
        raise UserError(explain(error, str(settings or "retriever"))) from error
    if config.backend is not Backend.LOCAL:
        raise UserError(f"--settings {settings}: a server searches itself; backend has to be local")
    return config


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
