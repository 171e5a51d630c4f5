"""`python -m tools.run_columns [--check]`: writes the columns of a run's tables in
docs/runs_as_data.md.

They are generated from `docagent_rl/runs/columns.py`. The rest of the page is written by hand, and
is kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import typer

from docagent_rl.runs.columns import COLUMNS

PAGE = Path(__file__).resolve().parents[1] / "docs" / "runs_as_data.md"
BEGIN = "<!-- made by python -m tools.run_columns -->"
END = "<!-- end of what it makes -->"
_PLAIN = {
    "int32": "integer",
    "double": "number",
    "float": "number",
    "string": "text",
    "bool": "flag",
}

app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if it is stale.")
    ] = False,
) -> None:
    """Write the tables of the page, or report that they differ from the columns."""
    now = PAGE.read_text(encoding="utf-8")
    wanted = with_columns(now)
    if now == wanted:
        return
    if check:
        typer.echo(f"{PAGE.name} is stale: run python -m tools.run_columns", err=True)
        raise typer.Exit(1)
    PAGE.write_text(wanted, encoding="utf-8")


def with_columns(page: str) -> str:
    """Return a page with the tables of columns between its two marks."""
    above, _, rest = page.partition(BEGIN)
    _, _, below = rest.partition(END)
    return "\n".join([f"{above}{BEGIN}", *_tables(), f"{END}{below}"])


def _tables() -> Iterator[str]:
    for table, columns in COLUMNS.items():
        yield from ("", f"### `{table}`", "", "| column | type | meaning |", "|---|---|---|")
        for name, kind, meaning in columns:
            yield f"| `{name}` | {_type(kind)} | {meaning} |"
    yield ""


def _type(kind: pa.DataType) -> str:
    if pa.types.is_list(kind):
        return f"list of {_type(kind.value_type)}s"
    if pa.types.is_map(kind):
        return f"map of {_type(kind.item_type)}s"
    return _PLAIN[str(kind)]


if __name__ == "__main__":
    app()
