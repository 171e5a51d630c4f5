"""`docagent-rl view`: show trajectories and the pages they saw, in the browser or in a file."""

from pathlib import Path

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.base.text import counted
from docagent_rl.commands.options import argument, option


def view_command(
    runs: list[Path] = argument(..., "Folders of runs, or of evaluations.", metavar="RUN..."),
    store: Path | None = option(
        None, "Document store; default: the one in the run's configuration."
    ),
    tokenizer: Path | None = option(None, "Folder with a tokenizer.json, to show tokens as text."),
    port: int = option(0, "Port; 0 picks a free one.", min=0, max=65535),
    host: str = option("127.0.0.1", "Address to listen at; 0.0.0.0 for other machines."),
    no_open: bool = option(False, "Do not open a browser.", "--no-open"),
    export: Path | None = option(
        None, "Write one HTML file that opens anywhere, instead of serving."
    ),
    query: str | None = option(
        None, "For --export: what to show, e.g. 'step=3&reward=0:0.2', 'uid=G'."
    ),
    force: Force = False,
) -> None:
    """Open runs in the browser: trajectories with their pages, curves, warnings, evidence funnel.

    The server runs until interrupted. Open the printed address, which contains an access token.
    Nothing is fetched from elsewhere. An index is kept in the folder of each run (view.sqlite; it
    may be deleted).

    Example: docagent-rl view workspace/runs/vrag_rl_qwen2_5_vl_7b
    """
    from docagent_rl.lab.viewer.api import Api
    from docagent_rl.lab.viewer.app import serve
    from docagent_rl.lab.viewer.export import answers, missing_images, page
    from docagent_rl.lab.viewer.runs import open_runs

    if store is not None and not store.is_dir():
        raise UserError(f"{store}: no such store")
    if (export is None) is not (query is None):
        raise UserError(
            "--export and --query go together: a file to write, and the trajectories to show in it"
        )
    opened = open_runs(runs, store, tokenizer)
    if export is not None:
        for run in opened:
            run.update()
        found = answers(Api(opened), query or "")
        write_output(export, page(found), force=force)
        if missing := missing_images(found):
            images = counted(missing, "image")
            typer.echo(f"without {images}: name the run's document store by --store", err=True)
        return typer.echo(f"written: {export}")
    return serve(opened, host=host, port=port, browse=not no_open)
