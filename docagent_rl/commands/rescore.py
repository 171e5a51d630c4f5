"""`docagent-rl rescore`: stored sessions paid another way."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.base.outputs import Force, check_output
from docagent_rl.commands.asking import spending
from docagent_rl.commands.counting import run_counter
from docagent_rl.endpoints.model_config import ModelConfig
from docagent_rl.lab.viewer.folder import RESCORED, STEP_FILE

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.envs.token_budget import TokenCounter
    from docagent_rl.lab.rescoring.difference import Payment, Turns
    from docagent_rl.lab.rescoring.table import Origin
    from docagent_rl.rollout.trajectory import Trajectory

PAGE, DATA = "rescore.md", RESCORED


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
    tokenizer: Annotated[
        Path | None,
        typer.Option(
            help="A folder with a tokenizer.json, that texts are counted by; default: the run's own."
        ),
    ] = None,
    at_a_time: Annotated[int, typer.Option(min=1, help="Sessions at a time.")] = 32,
    force: Force = False,
) -> None:
    """Pay stored sessions by another variant, weight, judge or estimator, and say what changes; no model.

    Every session is said again, word for word, in the environments of the run's configuration with the given
    values in it. With an estimator that needs no critic, advantages are compared as well, on either side by
    the configuration of that side. OUT is a run that `docagent-rl view` shows.

    Example: docagent-rl rescore runs/alden --out runs/alden_released -- docagent.env.variant=released
    """
    from docagent_rl.lab.rescoring.stored import StoredRun

    # verl warns of every training engine that is not installed
    warnings.filterwarnings("ignore", module=r"verl\.workers\.engine")
    stored, changes = StoredRun.open(run), list(overrides or ())
    sides = (stored.config, stored.changed(changes))
    files = stored.chosen(step or [], validation=validation)
    if out.resolve() == run.resolve():
        raise UserError("--out is the run itself: name another folder")
    place = _Place(out, run.resolve(), tuple(changes), force=force)
    counter = run_counter(run, tokenizer)
    with spending(ModelConfig()):  # without limits: it tells what a judge was asked
        payments, turns = asyncio.run(_repaid(sides, files, at_a_time, place, counter))
    if not payments:
        raise UserError(f"{run} holds no session that was played in {', '.join(files) or 'the steps named'}")
    place.finish(payments, turns, files)


async def _repaid(
    sides: Sequence[DictConfig], files: dict[str, Path], at_a_time: int, place: _Place, counter: TokenCounter
) -> tuple[list[Payment], list[Turns]]:
    """What sessions earn before and after, and the advantages of either side, where both can be told.

    The sessions of a step are written and let go before the next one is read.
    """
    from docagent_rl.config import DocAgentConfig, plain
    from docagent_rl.lab.rescoring.difference import Payment
    from docagent_rl.lab.rescoring.repaid import repay_all
    from docagent_rl.lab.rescoring.stored import sessions_of
    from docagent_rl.rollout.env_resources import EnvResources
    from docagent_rl.training.trainer.estimators import load_modules
    from docagent_rl.training.trainer.stored_credit import Crediting

    parsed = [DocAgentConfig.parse(plain(side.docagent)) for side in sides]
    for each in parsed:
        load_modules(each.modules)
    resources = EnvResources(parsed[-1], counter, running=False)
    credits = [Crediting(side, each.advantage) for side, each in zip(sides, parsed, strict=True)]
    place.claim(sides[1], files)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    payments: list[Payment] = []
    turns: list[list[list[float]]] = [[], []]

    async def step(file: Path, bars: Progress, task: TaskID) -> None:
        sessions = list(sessions_of(file))
        bars.update(task, total=len(sessions))
        found = await repay_all(sessions, resources, at_a_time=at_a_time, done=lambda: bars.advance(task))
        payments.extend(map(Payment.of, found))
        # a chat model's sessions hold no ids
        sampled = [each for each in found if any(turn.token_ids for turn in each.before.turns)]
        if sampled and all(credit.possible for credit in credits):
            turns[0].extend(credits[0].turns([each.before for each in sampled]))
            turns[1].extend(credits[1].turns([each.after for each in sampled]))
        place.write([each.after for each in found])

    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        for name, file in files.items():
            await step(file, bars, bars.add_task(name, total=None))
            await asyncio.sleep(0)  # the loop holds the results that it woke this up with until it runs again
    return payments, list(turns) if turns[0] else []


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the sessions and the tables go.

    Args:
        out: the folder.
        run: whose sessions they are.
        overrides: what was changed.
        force: replace what another command has left there.
    """

    out: Path
    run: Path
    overrides: tuple[str, ...]
    force: bool

    def claim(self, config: DictConfig, files: Mapping[str, Path]) -> None:
        """See that nothing but an earlier rescore lies there, before anything is played; what that left goes.

        Raises:
            UserError: something else lies there.
        """
        from omegaconf import OmegaConf

        from docagent_rl.checkpoints.archives import remove_seal
        from docagent_rl.lab.rescoring.table import Origin

        data, steps = self.out / DATA, self.out / "trajectories"
        earlier = Origin.of(data.read_bytes()) if data.is_file() else None
        left = {name for name in earlier.files if STEP_FILE.fullmatch(name)} if earlier else set()
        there = sorted(path for path in steps.glob("*.jsonl") if path.name not in left)
        if there and not self.force:
            raise UserError(f"{there[0]} is there: name another folder, or replace it with --force")
        begun, kept = self._origin(files).to_json(), OmegaConf.to_yaml(config)
        composed = self.out / "hydra" / "config.yaml"  # by which the viewer finds the documents
        for path, content in ((data, begun), (self.out / PAGE, begun), (composed, kept)):
            check_output(path, content, force=self.force, ours=lambda _: earlier is not None)
        for name in left:  # steps paid by other values would stand beside those that are paid now
            (steps / name).unlink(missing_ok=True)
            remove_seal(steps / name)
        atomic_write(data, begun)
        atomic_write(composed, kept)

    def _origin(self, files: Mapping[str, Path]) -> Origin:
        from docagent_rl.lab.rescoring.table import Origin

        # a run's own names; the sessions of an evaluation become a validation of step 0
        names = [path.name if STEP_FILE.fullmatch(path.name) else "val-0.jsonl" for path in files.values()]
        return Origin(str(self.run), self.overrides, tuple(names))

    def write(self, sessions: Sequence[Trajectory]) -> None:
        """Write the sessions of a step."""
        from docagent_rl.training.trainer.archive import write_trajectories

        if sessions:
            first = sessions[0]
            write_trajectories(self.out, first.step, sessions, validation=first.split == "val")

    def finish(self, payments: Sequence[Payment], turns: Sequence[Turns], files: Mapping[str, Path]) -> None:
        """Write the tables, and print them."""
        from docagent_rl.lab.eval.report.markdown import markdown
        from docagent_rl.lab.eval.report.terminal import rendered
        from docagent_rl.lab.rescoring.difference import difference
        from docagent_rl.lab.rescoring.table import grids_of

        found = difference(payments, *turns)
        grids = grids_of(found, payments)
        atomic_write(self.out / PAGE, markdown(grids, None))
        atomic_write(self.out / DATA, self._origin(files).to_json(found))
        console = Console()
        for grid in grids:
            console.print(rendered(grid))
        where = f"{self.out}: {PAGE}, {DATA}, trajectories/ (docagent-rl view)"
        Console(stderr=True).print(where, markup=False)
