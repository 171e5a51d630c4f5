"""Commands are called in this process, over one world of documents."""

import typer
from typer.testing import CliRunner

from docagent_rl.samples.sample import write_jsonl
from tests.samples.conftest import make_sample  # noqa: F401  a fixture


def called(command, *arguments, status=0):
    """What a command, or an app of several, printed, ending with a status; what it raises is
    raised.
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
    """The end of a command line that plays a recipe over the world."""
    return [
        "--",
        "+profile=cpu",
        f"docagent.workspace={world.root}",
        "docagent.provision=null",
        *overrides,
    ]


def asked_about(world, folder, count=6):
    """A file of questions, and its samples."""
    write_jsonl(world.samples[:count], folder / "questions.jsonl")
    return world.samples[:count]
