"""`docagent-rl describe`: have a model describe the pictures of pages."""

import asyncio
from functools import partial

import typer
from rich.console import Console
from rich.progress import Progress

from docagent_rl.base.text import counted, shown
from docagent_rl.commands.asking import resumable, within_budget
from docagent_rl.commands.options import StoreFolder, model_options, option
from docagent_rl.documents.describing import describe, pictured_pages, store_descriptions
from docagent_rl.documents.store import DocumentStore
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.endpoints.remote_model import open_model


@model_options()
def describe_command(
    store: StoreFolder,
    *,
    endpoint: ModelConfig,
    doc: list[str] | None = option(None, "Describe this document; may be repeated."),
    every: bool = option(False, "Ask about all pages that are not blank.", "--all"),
) -> None:
    """Have a model describe charts, drawings and photographs, so that searches find them.

    It is asked about pages with fewer than 300 characters and about pages with the caption of a
    figure, with one request per page. Text indexes append the description to the page's text, and
    have to be updated afterwards. Agents never read descriptions.

    The store changes only after all pages have been asked about. Replies are cached in
    <store>.described, so the same command resumes after an interruption and later asks only about
    new documents.

    Example: docagent-rl describe --store data/store --base-url http://127.0.0.1:8000/v1 --model
    qwen-vl \
        --max-requests 500
    """
    endpoint.require("describing pages")
    documents = DocumentStore(store)
    console = Console(stderr=True)
    names = list(dict.fromkeys(doc)) if doc else documents.doc_ids()
    pages = [
        page for name in names for page in pictured_pages(documents.document(name), every=every)
    ]
    bars = Progress(console=console, transient=True, disable=not console.is_terminal)
    with within_budget(endpoint), resumable(), bars:
        model = open_model(
            endpoint, "model", documents.path.with_name(f"{documents.path.name}.described")
        )
        bar = bars.add_task("Describing pages", total=len(pages))
        texts, reasons = asyncio.run(describe(pages, model, partial(bars.advance, bar)))
    changed = store_descriptions(documents.path, names, texts)
    replies = [texts[page.image_hash] for page in pages if page.image_hash in texts]
    descriptions = sum(map(bool, replies))
    typer.echo(
        f"{counted(len(pages), 'page')} asked about: {len(replies)} replies, {descriptions} of "
        "them descriptions"
    )
    if changed:
        typer.echo(
            f"{counted(changed, 'document')} with changed descriptions: update text indexes "
            "(`docagent-rl index update`)"
        )
    for why, count in reasons.items():
        console.print(
            shown(f"{count} without a reply; run the same command to ask again: {why}"),
            soft_wrap=True,
        )
    if reasons:
        raise typer.Exit(2)
