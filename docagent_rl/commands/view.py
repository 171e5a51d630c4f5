"""`docagent-rl view`: trajectories with the pages they saw, in the browser, in a file or in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from docagent_rl import __version__
from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, write_output
from docagent_rl.rollout.trajectory import Status

if TYPE_CHECKING:
    from docagent_rl.lab.viewer.export import Chosen
    from docagent_rl.lab.viewer.runs import OpenRun


def view_command(
    runs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN...",
            help="Folders of runs, <workspace>/runs/<experiment>, or of evaluations; or a trajectory file.",
        ),
    ],
    store: Annotated[
        Path | None,
        typer.Option(help="The documents, where the run names another place."),
    ] = None,
    tokenizer: Annotated[
        Path | None, typer.Option(help="A folder with a tokenizer.json, for the texts of tokens.")
    ] = None,
    index: Annotated[
        Path | None,
        typer.Option(help="An index of BM25 that the questions themselves are asked of, for the funnel."),
    ] = None,
    port: Annotated[int, typer.Option(help="0: one that is free.", min=0, max=65535)] = 0,
    host: Annotated[
        str, typer.Option(help="Address to listen at; 0.0.0.0 for other machines.")
    ] = "127.0.0.1",
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open a browser.")] = False,
    export: Annotated[
        Path | None, typer.Option(help="Write one HTML file that opens anywhere, instead of serving.")
    ] = None,
    trajectory: Annotated[
        list[int] | None, typer.Option(help="For --export: a trajectory, by its id.")
    ] = None,
    group: Annotated[
        str | None, typer.Option(help="For --export: the trajectories of a group (uid).")
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            help="For --export and --funnel: the trajectories of a link, such as 'step=3&reward=0:0.2'."
        ),
    ] = None,
    funnel: Annotated[
        Path | None, typer.Option(help="Write where evidence is lost as an SVG picture, instead of serving.")
    ] = None,
    by: Annotated[
        str, typer.Option(help="For --funnel: none, step, system, kind, dataset or split.")
    ] = "split",
    text: Annotated[bool, typer.Option("--text", help="Print trajectories in the terminal instead.")] = False,
    number: Annotated[int | None, typer.Option("--number", "-n", help="--text: the n-th, from 1.")] = None,
    question: Annotated[
        str | None, typer.Option(help="--text: only trajectories of this question id.")
    ] = None,
    status: Annotated[Status | None, typer.Option(help="--text: only trajectories that ended so.")] = None,
    limit: Annotated[
        int | None, typer.Option(help="--text: most trajectories to print, 3 by default.")
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="--text: one line a trajectory instead.")] = False,
    svg: Annotated[Path | None, typer.Option(help="--text: write a picture of it as well.")] = None,
    force: Force = False,
) -> None:
    """Open runs in the browser: trajectories with their pages, curves, warnings, where evidence is lost.

    Serves those who open the printed address, which holds a token, until interrupted; nothing is fetched from
    elsewhere. An index is kept in the folder of each run (view.sqlite, may be deleted).

    Example: docagent-rl view workspace/runs/vrag_rl_qwen2_5_vl_7b
    """
    if text or table or svg or any(each is not None for each in (number, question, status, limit)):
        from docagent_rl.commands.view_text import print_trajectories

        if len(runs) != 1:
            raise UserError("--text prints the trajectories of one run or file")
        most = 3 if limit is None else limit
        return print_trajectories(
            runs[0],
            number=number,
            question=question,
            status=status,
            limit=most,
            table=table,
            svg=svg,
            force=force,
        )
    from docagent_rl.lab.viewer.app import serve
    from docagent_rl.lab.viewer.export import Chosen
    from docagent_rl.lab.viewer.runs import Places, open_runs

    if store is not None and not store.is_dir():
        raise UserError(f"{store}: no such store")
    opened = open_runs(runs, Places(store, tokenizer, index))
    if index is not None:
        for run in opened:
            if run.retriever is None:
                raise UserError(f"--index needs the documents of {run.folder.path}: name them with --store")
    if funnel is not None:
        return _draw(opened, funnel, query or "", by, force=force)
    if export is not None:
        return _export(opened, export, Chosen(tuple(trajectory or ()), group, query), force=force)
    if trajectory or group is not None or query is not None:
        raise UserError("--trajectory, --group and --query choose what is written: name --export as well")
    return serve(opened, host=host, port=port, browse=not no_open, announce=_announce)


def _export(runs: Sequence[OpenRun], file: Path, chosen: Chosen, *, force: bool) -> None:
    from docagent_rl.lab.viewer.api import Api
    from docagent_rl.lab.viewer.export import Build, answers, page

    for run in runs:
        run.require_update()
    write_output(file, page(answers(Api(runs, __version__), chosen), Build.shipped()), force=force)
    typer.echo(f"written: {file}")


def _draw(runs: Sequence[OpenRun], file: Path, query: str, by: str, *, force: bool) -> None:
    from docagent_rl.lab.viewer.funnel import funnel, funnel_figure
    from docagent_rl.lab.viewer.queries import read_pairs

    if len(runs) != 1:
        raise UserError("--funnel draws one run")
    runs[0].require_update()
    with runs[0].index() as base:
        found = funnel(base, [*read_pairs(query), ("by", by)])
    write_output(file, funnel_figure(found, by), force=force)
    typer.echo(f"written: {file}")


def _announce(address: str) -> None:
    typer.echo(f"{address}   (Ctrl-C ends it)")
