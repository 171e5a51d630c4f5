"""`docagent-rl init`: write a folder in which an agent for one's own documents can be trained."""

from pathlib import Path

import typer

from docagent_rl.commands.options import argument, option
from docagent_rl.lab.own_agent.template import DEFAULT_RECIPE, write_agent, written
from docagent_rl.lab.papers.machine import count_gpus


def init_command(
    folder: Path = argument(..., "Folder to write; new or empty."),
    documents: Path = option(..., "Folder of your PDFs, page images and office files."),
    recipe: str = option(DEFAULT_RECIPE, "Recipe to train with; see `recipes`."),
) -> None:
    """Write a folder in which `docagent-rl run` trains an agent on your documents.

    Its agent.yaml explains every choice. On a machine without a GPU, the choice is a tiny model,
    which trains in minutes and shows that everything works.

    Example: docagent-rl init my_agent --documents pdfs/
    """
    gpus = count_gpus()
    write_agent(folder, documents, recipe, tiny=gpus == 0)
    typer.echo(written(folder), nl=False)
    chosen = "no GPU: profile: cpu, a tiny model" if gpus == 0 else f"{gpus} GPUs: a real model"
    typer.echo(f"This machine has {chosen}")
