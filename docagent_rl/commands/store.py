"""`docagent-rl store`: list, show and remove documents of a store, and free disk space."""

import json
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from docagent_rl.base.text import counted, shown, visible
from docagent_rl.commands.options import argument, option
from docagent_rl.documents.manifest import PageEntry, TextSource
from docagent_rl.documents.own_texts import replace_texts
from docagent_rl.documents.quality import quality
from docagent_rl.documents.references import PageRef
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upkeep import prune, remove

app = typer.Typer(help="List, show and remove the documents of a store.", no_args_is_help=True)

Store = Annotated[Path, typer.Argument(help="Folder of the document store.")]
_JSON = "Print JSON and nothing else."
_MIB = 1 << 20


@app.command("list")
def store_list_command(store: Store, json_output: bool = option(False, _JSON, "--json")) -> None:
    """List the documents with their numbers of pages (all, read by OCR, without text) and files.

    Example: docagent-rl store list data/store
    """
    documents = DocumentStore(store)
    rows = [_facts(documents, doc_id) for doc_id in documents.doc_ids()]
    if json_output:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=1))
        return
    table = Table("Document", "Pages", "By OCR", "Without text", "Source")
    for row in rows:
        counts = (str(row[name]) for name in ("pages", "ocr_pages", "textless_pages"))
        table.add_row(
            shown(row["doc_id"], overflow="fold"), *counts, shown(row["source"], overflow="fold")
        )
    Console().print(table)


@app.command("show")
def store_show_command(
    store: Store,
    doc_id: str = argument(..., "Id of the document."),
    page: int | None = option(None, "Print the text of this page and nothing else.", min=1),
    json_output: bool = option(False, _JSON, "--json"),
) -> None:
    """Show a document: file, settings, bookmarks, where each page's text comes from, and problems.

    Example: docagent-rl store show data/store 2019/report --page 3
    """
    documents = DocumentStore(store)
    if page is not None:
        typer.echo(visible(documents.page(PageRef(doc_id, page)).text()))
        return
    manifest = documents.manifest(doc_id)
    pages = [_page_facts(number, page) for number, page in enumerate(manifest.pages, start=1)]
    facts: dict[str, Any] = {
        **_facts(documents, doc_id),
        "sha256": manifest.source.sha256,
        "title": manifest.title,
        "settings": manifest.settings,
        "software": manifest.software,
        "bookmarks": len(manifest.outline),
        "quality": quality(manifest).line(),
    }
    if json_output:
        typer.echo(json.dumps({**facts, "page_facts": pages}, ensure_ascii=False, indent=1))
        return
    console = Console()
    table = Table(show_header=False)
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), shown(value, overflow="fold"))
    console.print(table)
    table = Table("Pages", "Pixels", "Text from", "Reason", "Read by", "Findings", "Described")
    for cells, alike in groupby(pages, key=_cells):
        numbers = [each["page"] for each in alike]
        table.add_row(_span(numbers), *(shown(cell, overflow="fold") for cell in cells))
    console.print(table)


@app.command("texts")
def texts_command(
    store: Store,
    folder: Path = argument(..., "Folder with the texts.", exists=True, file_okay=False),
    doc: list[str] | None = option(None, "Only this document; may be repeated."),
) -> None:
    """Replace the texts of pages by your own, such as those that Doc2X has read.

    For a document the folder has <id>.json (a reply of Doc2X), a folder <id> with one .md or .txt
    file per page, whose name ends with the page's number, or <id>.md with a form feed between
    pages. Pages without a text there keep theirs; pictures do not change. Update the text indexes
    afterwards; `ingest --replace` reads a document's own text again.

    Example: docagent-rl store texts data/store doc2x
    """
    documents = DocumentStore(store)
    known = [documents.document(doc_id).doc_id for doc_id in doc or documents.doc_ids()]
    replaced = replace_texts(documents.path, folder, dict.fromkeys(known))
    typer.echo(
        f"{counted(replaced.pages, 'page')} of {counted(replaced.documents, 'document')} with a "
        f"text of yours; {counted(replaced.changed, 'document')} changed"
    )
    if replaced.without:
        some = ", ".join(visible(doc_id) for doc_id in replaced.without[:3])
        typer.echo(f"{counted(len(replaced.without), 'document')} without one: {some}")
    if replaced.changed:
        typer.echo("update the text indexes with `docagent-rl index update`")


@app.command("remove")
def remove_command(store: Store, doc_ids: list[str] = argument(..., "Ids of documents.")) -> None:
    """Remove documents from a store; searches find them until the indexes are updated.

    Their pictures and texts stay on disk until `store prune`, also drawn pages in <store>.shown;
    replies in <store>.described stay until you delete them. Removing a lost document, as reported
    by `check`, clears the report. If the files are still in their folder, the next ingest stores
    them again.

    Example: docagent-rl store remove data/store 2019/report 2019/annex
    """
    remove(store, doc_ids)
    removed = counted(len(set(doc_ids)), "document")
    typer.echo(f"{removed} removed; update indexes with `docagent-rl index update`")


@app.command("prune")
def prune_command(store: Store) -> None:
    """Delete the pictures and texts of a store that none of its documents uses any more.

    Pages in <store>.shown that were drawn from them are deleted, too. The command waits for a
    running ingest, and keeps the pages of interrupted ones. Before it, update the indexes and stop
    all programs that read removed documents.

    Example: docagent-rl store prune data/store
    """
    pruned = prune(store)
    kept = (
        f"; {counted(pruned.ranges, 'range')} of pages of interrupted ingests are kept"
        if pruned.ranges
        else ""
    )
    typer.echo(f"{counted(pruned.files, 'file')} removed, {pruned.bytes / _MIB:.1f} MiB{kept}")


def _facts(documents: DocumentStore, doc_id: str) -> dict[str, Any]:
    manifest = documents.manifest(doc_id)
    read = [page.reading for page in manifest.pages if page.reading is not None]
    return {
        "doc_id": doc_id,
        "pages": len(manifest.pages),
        "ocr_pages": sum(reading.source is TextSource.OCR for reading in read),
        "textless_pages": sum(page.text is None for page in manifest.pages),
        "source": manifest.source.name,
    }


def _cells(page: dict[str, Any]) -> tuple[str, ...]:
    """Return a page's cells in the table, without its number: equal neighbours share a row."""
    size = f"{page['width']}x{page['height']}"
    reading = (page[name] or "" for name in ("text", "reason", "engine"))
    described = "yes" if page["described"] else ""
    return size, *reading, ", ".join(page["findings"]), described


def _span(numbers: list[int]) -> str:
    return str(numbers[0]) if len(numbers) == 1 else f"{numbers[0]}-{numbers[-1]}"


def _page_facts(number: int, page: PageEntry) -> dict[str, Any]:
    reading = page.reading
    return {
        "page": number,
        "width": page.width,
        "height": page.height,
        "text": reading.source.value if reading else None,
        "reason": reading.reason.value if reading else None,
        "engine": reading.engine if reading else None,
        "findings": [finding.value for finding in page.findings],
        "described": page.described is not None,
    }
