"""`docagent-rl demo`: a workspace to try everything on."""

from __future__ import annotations

from collections.abc import Sequence
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
    seed: Annotated[int, typer.Option(help="Seed of documents, questions and models.")] = 0,
    system: Annotated[
        list[str] | None,
        typer.Option(help="Make the tiny model of this system; may be repeated, or `all`. Default: vrag_rl."),
    ] = None,
    claim_only: Annotated[
        bool,
        typer.Option("--claim", help="Mark the workspace as the demo's and do nothing else."),
    ] = False,
) -> None:
    """Make synthetic reports, ingest them and your PDFs, build index, data files and tiny models.

    Works in a new workspace, or in one that it made; a workspace of yours is refused. What exists already is
    not made again: remove a model, or the whole folder, to have it anew.

    Example: docagent-rl demo --workspace workspace --pdfs ~/reports --system alden --system vrag_rl
    """
    from docagent_rl.lab.tiny.demo import prepare_demo
    from docagent_rl.lab.tiny.workspace import DemoLedger, DemoPaths
    from docagent_rl.systems import DEFAULT_SYSTEM

    if claim_only:
        DemoLedger(DemoPaths(workspace))
        return
    for name in _systems(system or [DEFAULT_SYSTEM]):
        report = prepare_demo(workspace, pdfs=pdfs, seed=seed, progress=True, system=name)
    Console().print(report.describe(), markup=False, highlight=False, soft_wrap=True)


def _systems(names: Sequence[str]) -> list[str]:
    """Return the systems that are named, each once.

    Raises:
        UserError: there is no such system.
    """
    from docagent_rl.systems import SYSTEMS, get_system

    wanted = list(SYSTEMS) if "all" in names else list(dict.fromkeys(names))
    for name in wanted:
        get_system(name)
    return wanted
