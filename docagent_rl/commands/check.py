"""`docagent-rl check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.checkpoints.audit import audit_archives, audit_checkpoints, has_checkpoints
from docagent_rl.documents.audit import Audit, Damage, audit_store
from docagent_rl.documents.layout import MARKER
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.indexes import audit_index

_SHOWN = 3


def check_command(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="STORE|INDEX|RUN...", help="Folders of stores, indexes, runs, checkpoints."),
    ],
) -> None:
    """Read every file of document stores, indexes and runs and compare it with its checksum.

    Lists damaged files, of a store each with the pages that need it; the exit status is then 1. What a run
    reads is verified in any case, when it is read: this finds damage before. Of a store, documents that it
    has lost are missed; of a run, checkpoints, the trajectories and numbers of its steps and its
    configuration are read. Where earlier versions left no checksum, it says so.

    Example: docagent-rl check data/store data/bm25 runs/mine
    """
    audits = {path: _audit(path) for path in paths}
    for path, audit in audits.items():
        for damage in audit.damages:
            typer.echo(_line(damage))
        typer.echo(f"{path}: {_summary(audit)}")
        if audit.damages:
            typer.echo(_advice(path), err=True)
    if any(audit.damages for audit in audits.values()):
        raise typer.Exit(1)


def _audit(path: Path) -> Audit:
    if (path / MARKER).is_file():
        return audit_store(path, progress=True)
    if (path / HEADER).is_file():
        return audit_index(path)
    if has_checkpoints(path) or (path / "trajectories").is_dir():
        return _audit_run(path)
    raise UserError(
        f"{path} is neither a document store (no {MARKER}) nor an index (no {HEADER}), and there are neither "
        "checkpoints nor trajectories (trajectories/) in it"
    )


def _audit_run(path: Path) -> Audit:
    """A run, or its checkpoints alone."""
    from docagent_rl.rollout.credit import read_credit

    parts = [audit_checkpoints(path)] if has_checkpoints(path) else []
    if (path / "trajectories").is_dir():
        parts.append(audit_archives(path))
    damages = {damage.path: damage for part in parts for damage in part.damages}
    for file in sorted(path.glob("credit/*.parquet")):  # a run may go without any
        try:
            read_credit(file)
        except UserError as error:
            damages[file] = Damage(file, str(error))
    contents = ", ".join(part.contents for part in parts)
    return Audit(contents, list(damages.values()), sum(part.unsealed for part in parts))


def _line(damage: Damage) -> str:
    prefix = "" if str(damage.path) in damage.problem else f"{damage.path}: "
    line = prefix + damage.problem
    if damage.users:
        rest = len(damage.users) - _SHOWN
        line += f" [{', '.join(damage.users[:_SHOWN])}{f' and {rest} more' if rest > 0 else ''}]"
    return line


def _summary(audit: Audit) -> str:
    line = f"{audit.contents}; " + (f"{len(audit.damages)} damaged" if audit.damages else "all whole")
    if audit.unsealed:
        line += (
            f"; {audit.unsealed} of its files are of an earlier version and have no checksum, "
            "so that damage may go unseen"
        )
    return "; ".join([line, *audit.notes])


def _advice(path: Path) -> str:
    if (path / MARKER).is_file():
        return (
            f"Repeat `docagent-rl ingest FOLDER --store {path}`: damaged pages are made anew. "
            "Delete what is listed without pages."
        )
    if has_checkpoints(path):
        return (
            "A run goes on from the last whole checkpoint before these, if there is one. Checkpoints listed "
            "here may be deleted."
        )
    return (
        f"Make it anew: docagent-rl index build --store STORE --out {path} --force "
        "(an index of vectors with its --model)"
    )
