"""The command `docagent-rl`: everything around training."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from docagent_rl import __version__
from docagent_rl.commands import data, index, recipes
from docagent_rl.commands.anchoring import anchoring_command
from docagent_rl.commands.bias_card import bias_card_command
from docagent_rl.commands.demo import demo_command
from docagent_rl.commands.doctor import doctor_command
from docagent_rl.commands.ingest import ingest_command
from docagent_rl.commands.learn import learn_command
from docagent_rl.commands.view import view_command
from docagent_rl.errors import InfrastructureError, UserError

app = typer.Typer(
    help="Document agents trained by reinforcement learning inside an unmodified verl.",
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
)
app.command("ingest")(ingest_command)
app.add_typer(index.app, name="index")
app.add_typer(data.app, name="data")
app.command("demo")(demo_command)
app.add_typer(recipes.app, name="recipes")
app.command("view")(view_command)
app.command("bias-card")(bias_card_command)
app.command("doctor")(doctor_command)
app.command("learn")(learn_command)
app.command("anchoring")(anchoring_command)


def _version(show: bool) -> None:
    if show:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Document agents trained by reinforcement learning inside an unmodified verl."""


def main() -> None:
    """Run the command line; bad input and failing services end it with one line and status 2."""
    try:
        app()
    except (UserError, InfrastructureError) as error:
        Console(stderr=True).print(f"docagent-rl: {error}", style="red", markup=False, highlight=False)
        sys.exit(2)


if __name__ == "__main__":
    main()
