"""`python -m tools.coming_from [--check]`: writes the tables in docs/coming_from.md.

They show the keys of EasyR1, and are generated from the entries in `docagent_rl/lab/easyr1/`. The
rest of the page is written by hand, and is kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Annotated

import typer

from docagent_rl.lab.easyr1.entry import KeyTranslation, TranslationKind
from docagent_rl.lab.easyr1.table import entries
from docagent_rl.lab.easyr1.translation import known_keys

PAGE = Path(__file__).resolve().parents[1] / "docs" / "coming_from.md"
BEGIN = "<!-- made by python -m tools.coming_from -->"
END = "<!-- end of what it makes -->"
SECTIONS = {
    "data.": "Data",
    "algorithm.": "Algorithm",
    "worker.actor.": "Actor",
    "worker.critic.": "Critic",
    "worker.ref.": "Reference",
    "worker.rollout.": "Rollout",
    "worker.reward.": "Reward",
    "worker.hybrid_engine": "Workers",
    "trainer.": "Trainer",
}
MARKS = {
    TranslationKind.SAME: "",
    TranslationKind.CONVERTED: "converted",
    TranslationKind.ELSEWHERE: "not carried over",
    TranslationKind.NONE: "no counterpart",
}

app = typer.Typer(add_completion=False)


@app.command()
def main(
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; status 1 if it is stale.")
    ] = False,
) -> None:
    """Write the table of the page, or report that it differs from the entries."""
    now = PAGE.read_text(encoding="utf-8")
    wanted = with_tables(now)
    if now == wanted:
        return
    if check:
        typer.echo(f"{PAGE.name} is stale: run python -m tools.coming_from", err=True)
        raise typer.Exit(1)
    PAGE.write_text(wanted, encoding="utf-8")


def with_tables(page: str) -> str:
    """Return a page with the tables between its two marks."""
    above, _, rest = page.partition(BEGIN)
    _, _, below = rest.partition(END)
    return "\n".join([f"{above}{BEGIN}", "", *tables(), f"{END}{below}"])


def tables() -> Iterator[str]:
    """Yield the lines of a table for each section; keys that EasyR1 sets itself are left out."""
    left_out = set(known_keys().own)
    for prefix, title in SECTIONS.items():
        found = [
            entry
            for key, entry in entries().items()
            if key.startswith(prefix) and key not in left_out
        ]
        yield f"<details><summary>{title}: {len(found)} keys</summary>"
        yield ""
        yield "| EasyR1 | here | |"
        yield "|---|---|---|"
        yield from (_row(list(same)) for _, same in groupby(found, _meaning))
        yield ""
        yield "</details>"
        yield ""


def _meaning(entry: KeyTranslation) -> tuple[object, ...]:
    """Return what entries share that stand in one row."""
    return (entry.kind, entry.ours, entry.note)


def _row(same: Sequence[KeyTranslation]) -> str:
    first = same[0]
    mark = MARKS[first.kind]
    alden = all(entry.key in known_keys().alden for entry in same)
    parts = ["ALDEN's copy" if alden else "", mark, first.note]
    remark = ": ".join(part for part in parts if part)
    return f"| {_code(entry.key for entry in same)} | {_code(first.ours)} | {remark} |"


def _code(names: Sequence[str] | Iterator[str]) -> str:
    return "<br>".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    app()
