"""`docagent-rl index`: build and try search indexes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval import BM25Retriever, BM25Settings, Hit, Stemmer

app = typer.Typer(help="Build and try search indexes over a document store.", no_args_is_help=True)

_SNIPPET_CHARACTERS = 160
_DEFAULTS = BM25Settings()

StoreOption = Annotated[Path, typer.Option(help="Folder of the document store.")]


@app.command("build")
def build_command(
    store: StoreOption,
    out: Annotated[Path, typer.Option(help="Folder of the index; an index there is replaced.")],
    k1: Annotated[float, typer.Option(help="BM25 k1: how slowly repetitions saturate.")] = _DEFAULTS.k1,
    b: Annotated[float, typer.Option(help="BM25 b: discount of long pages, 0 to 1.")] = _DEFAULTS.b,
    stemmer: Annotated[
        Stemmer, typer.Option(help="Reduce words to stems; english needs the package PyStemmer.")
    ] = _DEFAULTS.stemmer,
) -> None:
    """Build a BM25 index of the text of all pages.

    Example: docagent-rl index build --store data/store --out data/bm25
    """
    documents = DocumentStore(store)
    retriever = BM25Retriever.build(
        documents, settings=BM25Settings(k1=k1, b=b, stemmer=stemmer), progress=True
    )
    retriever.save(out)
    blank = sum(documents.page(ref).text_hash is None for ref in documents.pages())
    note = f"; {blank} of them have no text and will never be found" if blank else ""
    typer.echo(f"{retriever.num_pages} pages of {len(documents)} documents indexed{note}")


@app.command("search")
def search_command(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    index: Annotated[Path, typer.Option(help="Folder of the index.")],
    store: StoreOption,
    doc: Annotated[str | None, typer.Option(help="Search this document only.")] = None,
    top_k: Annotated[int, typer.Option(help="Number of pages at most.")] = 10,
) -> None:
    """Search an index and show the pages found.

    Example: docagent-rl index search "net revenue 2023" --index data/bm25 --store data/store --top-k 5
    """
    documents = DocumentStore(store)
    retriever = BM25Retriever.load(index)
    retriever.check(documents)
    (hits,) = retriever.search([query], doc_id=doc, top_k=top_k)
    if not hits:
        typer.echo("No page matches.")
        return
    Console().print(_table(hits, documents, retriever.tokenize(query)))


def _table(hits: list[Hit], documents: DocumentStore, tokens: list[str]) -> Table:
    table = Table("#", "Page", "Score", "Text")
    for rank, hit in enumerate(hits, start=1):
        snippet = _snippet(documents.page(hit.ref).text(), tokens)
        table.add_row(str(rank), Text(str(hit.ref), overflow="fold"), f"{hit.score:.3f}", Text(snippet))
    return table


def _snippet(text: str, tokens: list[str]) -> str:
    """The part of `text` around the first of `tokens`, on one line."""
    line = " ".join(text.split())
    match = re.search("|".join(re.escape(token) for token in tokens), line, re.IGNORECASE)
    start = max(0, match.start() - _SNIPPET_CHARACTERS // 4) if match else 0
    part = line[start : start + _SNIPPET_CHARACTERS]
    return f"{'…' if start else ''}{part}{'…' if start + len(part) < len(line) else ''}"
