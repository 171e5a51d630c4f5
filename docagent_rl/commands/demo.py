"""`docagent-rl demo`: a workspace to try everything on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def demo_command(
    workspace: Annotated[Path, typer.Option(help="Folder to fill; the recipes look for `workspace`.")] = Path(
        "workspace"
    ),
    pdfs: Annotated[
        Path | None, typer.Option(help="PDFs to ingest beside the synthetic ones; default <workspace>/pdfs.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of documents, questions and model.")] = 0,
) -> None:
    """Make synthetic reports, ingest them and your PDFs, build index, data files and a tiny model.

    What exists already is not made again.

    Example: docagent-rl demo --workspace workspace --pdfs ~/reports
    """
    from docagent_rl.demo import prepare_demo

    report = prepare_demo(workspace, pdfs=pdfs, seed=seed, progress=True)
    Console().print(report.describe())
