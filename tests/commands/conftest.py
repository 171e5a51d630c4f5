"""Commands are called in this process, on one world of documents."""

import typer
from typer.testing import CliRunner

from docagent_rl.samples.sample import write_jsonl
from tests.samples.conftest import make_sample  # noqa: F401  a fixture


def called(command, *arguments, status=0):
    """Return what a command, or an app of several commands, printed; check its status, and raise
    its exceptions.
    """
    app = command
    if not isinstance(command, typer.Typer):
        app = typer.Typer()
        app.command()(command)
    found = CliRunner().invoke(app, [str(each) for each in arguments], env={"COLUMNS": "200"})
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert status in (None, found.exit_code), found.output
    return found


def on_cpu(world, *overrides) -> list[str]:
    """Return the end of a command line that plays a recipe on the world."""
    return [
        "--",
        "+profile=cpu",
        f"docagent.workspace={world.root}",
        "docagent.provision=null",
        *overrides,
    ]


def asked_about(world, folder, count=6):
    """Write a file of questions; return it and its samples."""
    write_jsonl(world.samples[:count], folder / "questions.jsonl")
    return world.samples[:count]
