"""`python -m tools.reference [--check]`: writes the pages of reference, and schemas for editors.

`docs/commands.md` is made from the parsers of the command line, `docs/configuration.md` and
`recipes/schema/*.json` from the sections of the configuration, `docs/api.md` from the promised
names and their docstrings.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from tools.reference.api_page import api_page
from tools.reference.commands_page import commands_page
from tools.reference.configuration_page import configuration_page
from tools.reference.schemas import schema_files

ROOT = Path(__file__).resolve().parents[2]
app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if a file is stale.")
    ] = False,
) -> None:
    """Write the files, or report those that are stale."""
    stale = {name: text for name, text in made().items() if _now(name) != text}
    if check and stale:
        typer.echo(f"{', '.join(stale)}: stale; run python -m tools.reference", err=True)
        raise typer.Exit(1)
    for name, text in stale.items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")


def made() -> Mapping[str, str]:
    """Return the text of each file, by its path."""
    return {
        "docs/commands.md": commands_page(),
        "docs/configuration.md": configuration_page(),
        "docs/api.md": api_page(),
        **schema_files(),
    }


def _now(name: str) -> str:
    file = ROOT / name
    return file.read_text(encoding="utf-8") if file.exists() else ""


if __name__ == "__main__":
    app()
