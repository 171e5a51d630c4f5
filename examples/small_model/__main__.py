"""Take a small pretrained model through all stages of an agent's life, on a CPU.

PYTHONPATH=examples python -m small_model all
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from docagent_rl.base.io import atomic_write
from docagent_rl.cli import main
from small_model.plan import HERE, Settings, Step, steps
from small_model.process import environment, run, shown
from small_model.stages import ORDER, SHARED, Stage, StudyPaths, StudySystem

DEFAULTS = Settings()
WORKSPACE = Path("workspace/small_model")

app = typer.Typer(pretty_exceptions_show_locals=False, add_completion=False)


@app.command()
def study_command(
    stage: Annotated[
        Stage, typer.Argument(help="The stage to run; `all` runs every stage in this order.")
    ],
    workspace: Annotated[
        Path, typer.Option(help="Folder for all output; finished commands in it are not repeated.")
    ] = Path("workspace/small_model"),
    system: Annotated[
        list[StudySystem] | None, typer.Option(help="A system; repeatable. Default: both.")
    ] = None,
    collected: Annotated[
        int, typer.Option(min=1, help="Number of the oracle's trajectories.")
    ] = DEFAULTS.collected,
    sft_steps: Annotated[
        int, typer.Option(min=1, help="Number of batches of fine-tuning.")
    ] = DEFAULTS.sft_steps,
    rl_minutes: Annotated[
        float, typer.Option(min=0.1, help="Wall-clock minutes of RL; another call continues it.")
    ] = DEFAULTS.rl_minutes,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands without running them.")
    ] = False,
) -> None:
    """Take a pretrained model of 135 million parameters from its wheel to RL, on real PDFs.

    Every stage runs one or more of the project's own commands and prints each before it runs.
    Successful commands are not repeated; to repeat one, delete its line in done.json and its
    output. Reinforcement learning is an exception: each call continues it from the last
    checkpoint, for as many minutes again.

    Example: PYTHONPATH=examples python -m small_model all --system mm_doc_r1 --rl-minutes 30
    """
    paths = StudyPaths(workspace.absolute())
    settings = Settings(collected=collected, sft_steps=sft_steps, rl_minutes=rl_minutes)
    if not dry_run:
        shutil.copytree(HERE / "prompts", paths.root / "prompts", dirs_exist_ok=True)
    chosen = ORDER if stage is Stage.ALL else (stage,)
    systems = list(dict.fromkeys(system or list(StudySystem)))
    for each_system in systems:
        for each in chosen:
            if each not in SHARED or each_system is systems[0]:
                # made here, since the commands of a stage depend on the output of earlier stages
                for step in steps(each, each_system, paths, settings):
                    _do(step, paths, dry_run=dry_run)


def _do(step: Step, paths: StudyPaths, *, dry_run: bool) -> None:
    """Print a command and run it, unless it is listed in `done.json`."""
    console = Console(stderr=True, soft_wrap=True)
    variables = environment(paths.root)
    line = shown(step, variables)
    done: list[str] = []
    if paths.done.is_file():
        done = json.loads(paths.done.read_text(encoding="utf-8"))

    if line in done and not _is_repeated(step):
        console.print(f"done: {line}", markup=False, style="dim")
        return
    console.print(line, markup=False, highlight=False)
    if dry_run:
        return

    run(step, variables)
    # a command that is repeated moves to the end
    others = [each for each in done if each != line]
    atomic_write(paths.done, json.dumps([*others, line], indent=1) + "\n")


def _is_repeated(step: Step) -> bool:
    """Return whether a command runs again although it succeeded before.

    Training continues for as many minutes again; reports and pictures cover the runs so far.
    """
    is_report = step.words[1:2] == ("report",) or "small_model.figure" in step.words
    return step.minutes is not None or is_report


if __name__ == "__main__":
    main(app)
