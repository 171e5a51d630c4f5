"""`docagent-rl rescore`: stored sessions paid another way."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from docagent_rl.errors import UserError
from docagent_rl.io import atomic_write
from docagent_rl.outputs import Force, check_output

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.rollout.trajectory import Trajectory
    from docagent_rl.training.rescoring.difference import Turns
    from docagent_rl.training.rescoring.repaid import Repaid

PAGE, DATA = "rescore.md", "rescore.json"


def rescore_command(
    run: Annotated[Path, typer.Argument(help="Folder of a run of the trainer, or of an evaluation.")],
    overrides: Annotated[
        list[str] | None,
        typer.Argument(help="After --: what is to be paid another way.", metavar="[-- KEY=VALUE...]"),
    ] = None,
    *,
    out: Annotated[Path, typer.Option(help="Folder for the sessions as they are paid then, and the tables.")],
    step: Annotated[list[int] | None, typer.Option(help="Only this step; may be repeated.")] = None,
    validation: Annotated[bool, typer.Option("--validation", help="Sessions of validations.")] = False,
    at_a_time: Annotated[int, typer.Option(min=1, help="Sessions at a time.")] = 32,
    force: Force = False,
) -> None:
    """Pay stored sessions by another variant, weight, judge or estimator, and say what changes; no model.

    Every session is said again, word for word, in the environments of the run's configuration with the given
    values in it. With an estimator that needs no critic, advantages are compared as well, on either side by
    the configuration of that side. OUT is a run that `docagent-rl view` shows.

    Example: docagent-rl rescore runs/alden --out runs/alden_released -- docagent.env.variant=released
    """
    from docagent_rl.training.rescoring.stored import StoredRun

    stored, changes = StoredRun.open(run), list(overrides or ())
    sides = (stored.config, stored.changed(changes))
    files = stored.chosen(step or [], validation=validation)
    if out.resolve() == run.resolve():
        raise UserError("--out is the run itself: name another folder")
    repaid, turns = asyncio.run(_repaid(sides, files, at_a_time))
    if not repaid:
        raise UserError(f"{run} holds no session that was played in {', '.join(files) or 'the steps named'}")
    _write(out, repaid, turns, changes, force=force)


async def _repaid(
    sides: Sequence[DictConfig], files: dict[str, Path], at_a_time: int
) -> tuple[list[Repaid], list[Turns]]:
    """Sessions before and after, and the advantages of either side, where both can be told."""
    from docagent_rl.config import DocAgentConfig, plain
    from docagent_rl.rollout.env_resources import EnvResources
    from docagent_rl.training.rescoring.credit import Crediting
    from docagent_rl.training.rescoring.repaid import repay_all
    from docagent_rl.training.rescoring.stored import sessions_of
    from docagent_rl.training.trainer.estimators import load_modules

    parsed = [DocAgentConfig.parse(plain(side.docagent)) for side in sides]
    for each in parsed:
        load_modules(each.modules)
    resources = EnvResources(parsed[-1], running=False)
    credits = [Crediting(side, each.advantage) for side, each in zip(sides, parsed, strict=True)]
    everything: list[Repaid] = []
    turns: list[list[list[float]]] = [[], []]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        for name, file in files.items():
            sessions = list(sessions_of(file))
            task = bars.add_task(name, total=len(sessions))
            found = await repay_all(
                sessions, resources, at_a_time=at_a_time, done=lambda at=task: bars.advance(at)
            )
            everything += found
            # a chat model's sessions hold no ids
            sampled = [each for each in found if any(turn.token_ids for turn in each.before.turns)]
            if sampled and all(credit.possible for credit in credits):
                turns[0] += credits[0].turns([each.before for each in sampled])
                turns[1] += credits[1].turns([each.after for each in sampled])
    return everything, list(turns) if turns[0] else []


def _write(
    out: Path,
    repaid: Sequence[Repaid],
    turns: Sequence[Turns],
    overrides: Sequence[str],
    *,
    force: bool,
) -> None:
    from docagent_rl.eval.report.markdown import markdown
    from docagent_rl.eval.report.terminal import rendered
    from docagent_rl.training.rescoring.difference import difference
    from docagent_rl.training.rescoring.table import as_json, grids_of, is_ours
    from docagent_rl.training.trainer.archive import trajectory_file, write_trajectories

    found = difference(repaid, *turns)
    grids = grids_of(found, repaid)
    steps: dict[tuple[int, bool], list[Trajectory]] = defaultdict(list)
    for each in repaid:
        steps[each.after.step, each.after.split == "val"].append(each.after)
    data = out / DATA
    earlier = data.is_file() and is_ours(data.read_bytes())
    for step, validation in steps:
        file = trajectory_file(out, step, validation=validation)
        if file.exists() and not (force or earlier):
            raise UserError(f"{file} is there: name another folder, or replace it with --force")
    files = {out / PAGE: markdown(grids, None), data: as_json(found, overrides)}
    for path, content in files.items():
        check_output(path, content, force=force, ours=lambda _: earlier)
    for path, content in files.items():
        atomic_write(path, content)
    for (step, validation), sessions in steps.items():
        write_trajectories(out, step, sessions, validation=validation)
    console = Console()
    for grid in grids:
        console.print(rendered(grid))
    where = f"{out}: {PAGE}, {DATA}, trajectories/ (docagent-rl view)"
    Console(stderr=True).print(where, markup=False)
