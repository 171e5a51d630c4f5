"""`docagent-rl run`: go from a folder of documents to a trained agent."""

import shlex
from pathlib import Path

import typer

from docagent_rl.base.errors import UserError
from docagent_rl.commands.options import argument, option
from docagent_rl.lab.own_agent.next_steps import commands_to_type
from docagent_rl.lab.own_agent.own_agent import OwnAgent
from docagent_rl.lab.own_agent.own_stages import own_chain
from docagent_rl.lab.own_agent.project import FILE, read_project
from docagent_rl.lab.papers.machine import count_gpus
from docagent_rl.lab.stages.chain import Chain
from docagent_rl.lab.stages.plan import plan_text

_PLANNED_GPUS = 8
"""Number of GPUs to plan for on a machine without any."""


def run_command(
    folder: Path = argument(Path(), "Folder that `init` wrote; default: this one."),
    stage: list[str] | None = option(None, "Run only this stage; may be repeated."),
    dry_run: bool = option(False, "Print the commands, and run none.", "--dry-run"),
) -> None:
    """Train an agent on your documents: ingestion, index, questions, SFT, RL, evaluation, report.

    FOLDER/agent.yaml has all choices. Finished stages are skipped, so the same command resumes
    after an interruption, and after a change repeats what the change concerns. Each stage is
    printed before it runs, and its output is kept in FOLDER/.stages. A run that began with other
    questions or settings is renamed, never continued. docs/own_data.md describes the stages.

    Example: docagent-rl run my_agent --dry-run

    Example: docagent-rl run my_agent --stage ingest --stage index
    """
    project = read_project(folder)
    gpus = count_gpus()
    planned = _PLANNED_GPUS if dry_run and not gpus else gpus
    agent = OwnAgent(project, planned, workspace=folder.resolve())
    chain = own_chain(agent, shlex.join(["docagent-rl", "run", str(folder)]))
    stages = stage or ()
    if dry_run:
        typer.echo(plan_text(chain, stages), nl=False)
        if not (agent.tiny or gpus or project.gpus):
            typer.echo(f"this machine has no GPU: planned for {_PLANNED_GPUS}")
        return
    if not (agent.tiny or gpus):
        _refuse_without_gpu(chain, stages, folder)
    chain.run(stages)
    if agent.run.exists():
        typer.echo(commands_to_type(agent, folder), nl=False)


def _refuse_without_gpu(chain: Chain, stages: list[str] | tuple[()], folder: Path) -> None:
    computing = [each.name for each in chain.chosen(stages) if each.estimate.gpu_hours is None]
    if computing:
        raise UserError(
            f"{folder / FILE}: profile: null trains a real model, but this machine has no GPU for "
            f"{', '.join(computing)}: set `profile: cpu` for a tiny model, or move the folder to a "
            "machine with GPUs; --stage runs the other stages here"
        )
