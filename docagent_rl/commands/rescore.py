"""`docagent-rl rescore`: recompute the rewards of stored trajectories."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from docagent_rl.base.errors import UserError
from docagent_rl.base.outputs import Force, written_before
from docagent_rl.base.seals import Seal
from docagent_rl.commands.asking import within_budget
from docagent_rl.commands.options import Overrides, argument, option
from docagent_rl.commands.playing import run_counter
from docagent_rl.endpoints.endpoint import ModelConfig
from docagent_rl.lab.viewer.folder import RESCORED

if TYPE_CHECKING:
    from omegaconf import DictConfig

    from docagent_rl.envs.token_budget import TokenCounter
    from docagent_rl.lab.rescoring.difference import Change, Turns

PAGE = "rescore.md"
DATA = RESCORED
_MARK = "docagent_rl_rescore"
_VERSION = 1


def rescore_command(
    run: Path = argument(..., "Folder of a training run or of an evaluation."),
    overrides: Overrides = None,
    *,
    out: Path = option(..., "Folder for the rescored trajectories and the tables."),
    step: list[int] | None = option(None, "Rescore only this step; may be repeated."),
    validation: bool = option(
        False, "Rescore the trajectories of validation instead.", "--validation"
    ),
    at_a_time: int = option(32, "Number of trajectories at the same time.", min=1),
    force: Force = False,
) -> None:
    """Recompute rewards of stored trajectories with another variant, weight, judge or estimator.

    The policy does not run: its recorded turns are replayed word for word in the run's
    environments, with the overrides applied. If the estimator needs no critic, advantages are
    compared, too. `docagent-rl view OUT` shows the result.

    Example: docagent-rl rescore runs/alden --out runs/alden_released --
    docagent.env.variant=released
    """
    from docagent_rl.lab.rescoring.stored import StoredRun

    stored = StoredRun.open(run)
    edits = list(overrides or ())
    sides = (stored.config, stored.changed(edits))
    files = stored.chosen(step or [], validation=validation)
    if out.resolve() == run.resolve():
        raise UserError("--out is the run itself: name another folder")
    output = _Output(out, {"run": str(run.resolve()), "overrides": edits}, force=force)
    with within_budget(ModelConfig()):  # without limits, only to print what a judge was asked
        changes, turns = asyncio.run(_rescored(sides, files, at_a_time, output, run_counter(run)))
    if not changes:
        raise UserError(
            f"{run}: no trajectory was played in {', '.join(files) or 'the steps named'}"
        )
    output.finish(changes, turns)


async def _rescored(
    sides: Sequence[DictConfig],
    files: Mapping[str, Path],
    at_a_time: int,
    output: _Output,
    counter: TokenCounter,
) -> tuple[list[Change], list[Turns]]:
    """Return the changes of rewards, and the advantages before and after if both can be computed.

    The trajectories of a step are written and released before those of the next step are read.
    """
    from docagent_rl.base.user_code import load_modules
    from docagent_rl.config import DocAgentConfig, plain_section
    from docagent_rl.lab.rescoring.difference import Change
    from docagent_rl.lab.rescoring.stored import rescore_all
    from docagent_rl.rollout.env_resources import EnvResources
    from docagent_rl.rollout.trajectory import read_trajectories
    from docagent_rl.training.trainer.archive import write_trajectories
    from docagent_rl.training.trainer.stored_credit import Crediting

    parsed = [DocAgentConfig.parse(plain_section(side.docagent)) for side in sides]
    for each in parsed:
        load_modules(each.modules)
    resources = EnvResources(parsed[-1], counter, running=False)
    credits = [Crediting(side, each.advantage) for side, each in zip(sides, parsed, strict=True)]
    output.claim(sides[1])
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    changes: list[Change] = []
    turns: list[list[list[float]]] = [[], []]

    async def step(name: str, file: Path, bars: Progress) -> None:
        trajectories = [each for each in read_trajectories(file) if not each.masked]
        task = bars.add_task(name, total=len(trajectories))
        found = await rescore_all(
            trajectories, resources, at_a_time=at_a_time, done=lambda: bars.advance(task)
        )
        changes.extend(map(Change.of, found))
        # trajectories of a chat model have no token ids
        sampled = [each for each in found if any(turn.token_ids for turn in each.before.turns)]
        if sampled and all(credit.possible for credit in credits):
            turns[0].extend(credits[0].turns([each.before for each in sampled]))
            turns[1].extend(credits[1].turns([each.after for each in sampled]))
        if found:
            first = found[0].after
            write_trajectories(
                output.folder,
                first.step,
                [each.after for each in found],
                validation=first.split == "val",
            )

    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        for name, file in files.items():
            await step(name, file, bars)
            # the event loop keeps the last results alive until it runs again
            await asyncio.sleep(0)
    return changes, list(turns) if turns[0] else []


@dataclass(frozen=True, slots=True)
class _Output:
    """The folder of the trajectories and the tables."""

    folder: Path
    origin: Mapping[str, Any]
    """Run and overrides."""
    force: bool
    """Replace an earlier rescore."""

    @property
    def seal(self) -> Seal:
        """The seal of its files."""
        return Seal(self.folder)

    def claim(self, config: DictConfig) -> None:
        """Prepare the folder, which must be new or empty; an earlier rescore is removed.

        Raises:
            UserError: The folder has other files, or an earlier rescore without `force`.
        """
        from omegaconf import OmegaConf

        if self.folder.exists() and any(self.folder.iterdir()):
            if written_before(self.folder / DATA, _MARK) is None:
                raise UserError(f"{self.folder} contains other files: name another folder")
            if not self.force:
                raise UserError(
                    f"{self.folder} contains an earlier rescore: name another folder, or replace "
                    "it with --force"
                )
            shutil.rmtree(self.folder / "trajectories", ignore_errors=True)
            self.seal.path.unlink(missing_ok=True)
        self.seal.write(self.folder / DATA, self._data())
        # the viewer finds the documents by it
        self.seal.write(self.folder / "hydra" / "config.yaml", OmegaConf.to_yaml(config))

    def finish(self, changes: Sequence[Change], turns: Sequence[Turns]) -> None:
        """Write the tables, and print them."""
        from docagent_rl.lab.eval.report.grid import rendered, tables_markdown
        from docagent_rl.lab.rescoring.difference import difference, difference_tables

        found = difference(changes, *turns)
        grids = difference_tables(found)
        self.seal.write(self.folder / PAGE, tables_markdown(grids))
        self.seal.write(self.folder / DATA, self._data(**found))
        self.seal.compact()
        console = Console()
        for grid in grids:
            console.print(rendered(grid))
        where = f"{self.folder}: {PAGE}, {DATA}, trajectories/ (docagent-rl view)"
        Console(stderr=True).print(where, markup=False)

    def _data(self, **numbers: Any) -> str:
        """Return the content of `DATA`; its numbers are known when all steps have been written."""
        return (
            json.dumps({_MARK: _VERSION, **self.origin, **numbers}, indent=2, allow_nan=False)
            + "\n"
        )
