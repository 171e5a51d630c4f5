"""Write the tables of verl's keys in docs/verl_switches.md.

python -m tools.verl_keys [--check]

The tables are generated from `docagent_rl/training/settings/verl_keys.yaml` and
`verl_sft_keys.yaml`. The rest of the page is written by hand, and is left as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from docagent_rl.training.settings.keys import reference, sft_reference
from docagent_rl.training.settings.ledger import RL_FILE, SFT_FILE, KeyKind, leaves, ledger

PAGE = Path(__file__).resolve().parents[1] / "docs" / "verl_switches.md"
BEGIN = "<!-- made by python -m tools.verl_keys -->"
END = "<!-- end of what it makes -->"
KINDS = {
    KeyKind.READ: "verl or this package reads it",
    KeyKind.SET: "the recipes set it, and need this value",
    KeyKind.REPLACED: "another key is read in its place",
    KeyKind.WITHOUT_EFFECT: "nothing reads it",
    KeyKind.REFUSED: "it is read, and changing it breaks the run",
}
TITLES = {RL_FILE: "Reinforcement learning", SFT_FILE: "Supervised fine-tuning"}
REFERENCES = {RL_FILE: reference, SFT_FILE: sft_reference}

app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if the page is stale.")
    ] = False,
) -> None:
    """Write the tables of the page, or report that they are stale."""
    now = PAGE.read_text(encoding="utf-8")
    wanted = with_tables(now)
    if now == wanted:
        return
    if check:
        typer.echo(f"{PAGE.name} is stale: run python -m tools.verl_keys", err=True)
        raise typer.Exit(1)
    PAGE.write_text(wanted, encoding="utf-8")


def with_tables(page: str) -> str:
    """Return a page with the tables between its two marks."""
    above, _, rest = page.partition(BEGIN)
    _, _, below = rest.partition(END)
    return "\n".join([f"{above}{BEGIN}", "", *counts(), *tables(), f"{END}{below}"])


def counts() -> Iterator[str]:
    """Yield the lines of the table that counts keys by kind."""
    yield "| kind | keys of reinforcement learning | of supervised fine-tuning | what it is |"
    yield "|---|---|---|---|"
    numbers = {file: Counter(_kinds(file)) for file in REFERENCES}
    for kind, meaning in KINDS.items():
        yield f"| {kind} | {numbers[RL_FILE][kind]} | {numbers[SFT_FILE][kind]} | {meaning} |"
    totals = [sum(numbers[file].values()) for file in REFERENCES]
    yield f"| | {totals[0]} | {totals[1]} | |"
    yield ""


def _kinds(file: str) -> Iterator[KeyKind]:
    for key, _ in leaves(REFERENCES[file]()):
        entry = ledger(file).entry(key)
        if entry is not None:
            yield entry.kind


def tables() -> Iterator[str]:
    """Yield the lines of the tables of keys."""
    for file, title in TITLES.items():
        groups = yaml.safe_load(
            (files("docagent_rl.training.settings") / file).read_text(encoding="utf-8")
        )
        yield f"### {title}: keys that are not to be changed"
        yield ""
        yield "| keys | kind | because |"
        yield "|---|---|---|"
        yield from (_restricted(group) for group in groups if group["kind"] != KeyKind.READ)
        yield ""
        yield f"<details><summary>{title}: keys that are read</summary>"
        yield ""
        yield "| keys | |"
        yield "|---|---|"
        yield from (_read(group) for group in groups if group["kind"] == KeyKind.READ)
        yield ""
        yield "</details>"
        yield ""


def _restricted(group: Mapping[str, Any]) -> str:
    remedy = f"; set {group['instead']}" if "instead" in group else ""
    values = f" ({_values(group['values'])})" if "values" in group else ""
    return f"| {_names(group)} | {group['kind']}{values} | {group['why']}{remedy} |"


def _read(group: Mapping[str, Any]) -> str:
    said = []
    if "values" in group:
        said.append(f"{_values(group['values'])}: {group['why']}")
    if "modes" in group:
        said.append(f"in {_values([f'docagent_{mode}' for mode in group['modes']])} alone")
    if "note" in group:
        said.append(group["note"])
    return f"| {_names(group)} | {'; '.join(said)} |"


def _names(group: Mapping[str, Any]) -> str:
    sections = [group["section"]] if isinstance(group["section"], str) else group["section"]
    names = group["keys"].split()
    many = names[0] if len(names) == 1 else "{" + ", ".join(names) + "}"
    return "<br>".join(f"`{section}.{many}`" for section in sections)


def _values(values: Sequence[Any]) -> str:
    return " or ".join(
        f"`{str(value).lower() if isinstance(value, bool) else value}`" for value in values
    )


if __name__ == "__main__":
    app()
