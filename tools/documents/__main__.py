"""Fetch the documents: `python -m tools.documents FOLDER`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from docagent_rl.base.errors import InfrastructureError, UserError
from tools.documents.fetch import Outcome, fetch
from tools.documents.manifest import MANIFEST, Manifest, read_manifest

app = typer.Typer(add_completion=False)


@app.command()
def main(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder for the PDFs; created if missing.")
    ] = None,
    manifest: Annotated[Path, typer.Option(help="The list of documents.")] = MANIFEST,
    apt: Annotated[
        list[str] | None, typer.Option(help="An option of apt, such as Acquire::Retries=5.")
    ] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the documents and exit.")] = False,
) -> None:
    """Fetch real PDFs from Debian's packages: manuals, slides, a survey, a guide, a scan.

    The command needs no root and writes only to FOLDER. Each PDF is verified by its SHA-256. After
    an interruption, run it again: existing files are kept. The documents keep the licences of their
    packages (--list).
    """
    console = Console(stderr=True, soft_wrap=True)
    try:
        documents = read_manifest(manifest)
        if listed:
            Console().print(_table(documents))
            return
        if folder is None:
            raise UserError(
                "name the folder for the PDFs, as in `python -m tools.documents documents`"
            )
        outcome = _fetch(documents, folder, apt or [], console)
    except UserError as error:
        console.print(str(error), markup=False, highlight=False)
        raise typer.Exit(2) from error
    except InfrastructureError as error:
        console.print(f"{error}; try again later", markup=False, highlight=False)
        raise typer.Exit(1) from error
    for note in outcome.notes:
        console.print(note, markup=False, highlight=False)
    pages = sum(documents.pages().values())
    console.print(
        f"{len(outcome.placed) + len(outcome.kept)} documents of {pages} pages in {folder}, "
        f"{len(outcome.kept)} of them already there",
        markup=False,
        highlight=False,
    )


def _fetch(documents: Manifest, folder: Path, options: list[str], console: Console) -> Outcome:
    outcome = Outcome()
    with Progress(console=console, transient=True) as progress:
        total = len(documents.documents) + len(documents.scans)
        task = progress.add_task("Fetching documents", total=total)
        for doc_id, so_far in fetch(documents, folder, options):
            outcome = so_far
            progress.update(task, advance=1, description=doc_id)
    return outcome


def _table(documents: Manifest) -> Table:
    table = Table()
    for name in ("document", "kind", "pages", "package", "version", "licence"):
        table.add_column(name, overflow="fold")
    for entry in documents.documents:
        row = (
            entry.doc_id,
            entry.kind,
            str(entry.pages),
            entry.package,
            entry.version,
            entry.licence,
        )
        table.add_row(*row)
    for scan in documents.scans:
        table.add_row(
            scan.doc_id, f"{scan.dpi} dpi scan of {scan.of}", str(documents.pages()[scan.doc_id])
        )
    return table


if __name__ == "__main__":
    app()
