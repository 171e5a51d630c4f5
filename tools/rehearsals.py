"""Rehearse recipes at their full size, one after the other, and write the table of
docs/performance.md.

    python -m tools.rehearsals run FOLDER [NAME ...]    # what has no result yet, one step each
    python -m tools.rehearsals table

A result is a file in `benchmarks/rehearsals`, so the table can be completed over several days. A
rehearsal takes minutes to hours, and is best run alone on the machine.
"""

from __future__ import annotations

import argparse
import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_write
from docagent_rl.lab.rehearsal.rehearsing import rehearse_recipe
from docagent_rl.lab.rehearsal.report import GIB, Rehearsal
from docagent_rl.lab.rehearsal.settings import RehearsalSettings

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "rehearsals"
PAGE = ROOT / "docs" / "performance.md"
BEGIN = "<!-- made by `python -m tools.rehearsals table` -->"
END = "<!-- to here -->"
RECIPES = (
    "mm_doc_r1_qwen3_4b",
    "vrag_rl_qwen2_5_vl_7b",
    "unidoc_rl_qwen2_5_vl_7b",
    "alden_qwen2_5_vl_7b",
    "doc_v_star_qwen2_5_vl_7b",
    "mm_doc_r1_qwen3_4b_grpo",
    "mm_doc_r1_qwen3_5_4b",
    "vrag_rl_qwen3_vl_8b",
    "vrag_rl_qwen3_vl_30b_a3b",
    "vrag_rl_qwen3_5_9b",
    "alden_hybrid_qwen2_5_vl_7b",
    "alden_qwen3_vl_8b",
    "alden_qwen3_vl_30b_a3b",
    "alden_qwen3_5_9b",
    "unidoc_rl_qwen3_vl_8b",
    "unidoc_rl_qwen3_vl_30b_a3b",
    "unidoc_rl_qwen3_5_9b",
    "doc_v_star_qwen3_vl_4b",
    "doc_v_star_qwen3_vl_30b_a3b",
    "doc_v_star_qwen3_5_9b",
)
"""One recipe of each system and family; another size of the same family has the same rehearsal, but
for the room of its KV caches.
"""
SECONDS = {
    "rollout": ("gen",),
    "old log-probs": ("old_log_prob",),
    "reference": ("ref",),
    "values": ("values",),
    "updates": ("update_critic", "update_actor"),
    "step": ("step",),
}
"""Columns of the table, with the parts of a step whose times are added, by verl's names."""


@dataclass(frozen=True, slots=True)
class Result:
    """The numbers of one step of a rehearsal.

    Args:
        recipe: the recipe's name.
        commit: the commit that was measured.
        ranks: data-parallel ranks of the trainer.
        start_s: seconds until the step began.
        seconds: seconds of each of `SECONDS`.
        trajectories: the trajectories that were played.
        turns: turns of a trajectory on average.
        tokens: tokens of all rows.
        prefill: prompt tokens that the servers computed, divided by the new ones; None if each turn
            has a context of its own.
        lag_s: the longest lag of an agent worker's event loop.
        memory_gib: the most memory of all processes of each part.
        moved_gib: what went over the loopback device.
    """

    recipe: str
    commit: str
    ranks: int
    start_s: float
    seconds: Mapping[str, float]
    trajectories: int
    turns: float
    tokens: int
    prefill: float | None
    lag_s: float
    memory_gib: Mapping[str, float]
    moved_gib: float

    @classmethod
    def of(cls, rehearsal: Rehearsal, commit: str) -> Result:
        """Return the numbers of the last step of a rehearsal."""
        step = rehearsal.steps[-1]
        ranks = rehearsal.settings["ranks"]
        return cls(
            recipe=rehearsal.recipe,
            commit=commit,
            ranks=ranks,
            start_s=round(rehearsal.start_s, 1),
            seconds={
                column: round(sum(step.get(f"timing_s/{name}", 0.0) for name in names), 1)
                for column, names in SECONDS.items()
            },
            trajectories=round(step["docagent/trajectories/trained"]),
            turns=round(step["docagent/turns"], 2),
            tokens=round(step["global_seqlen/mean"] * ranks),
            prefill=step.get("docagent/prefill_ratio"),
            lag_s=round(step["docagent/workers/event_loop_lag_s"], 3),
            memory_gib={
                part: round(each.together / GIB, 2) for part, each in rehearsal.memory.items()
            },
            moved_gib=round(rehearsal.loopback_bytes / GIB, 2),
        )


def main() -> None:
    """Rehearse what is missing, or write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="rehearse recipes without a result")
    run.add_argument("folder", type=Path, help="folder of the runs")
    run.add_argument("names", nargs="*", metavar="NAME", help="default: all of the table")
    run.add_argument("--ranks", type=int, default=1, help="ranks of the trainer")
    run.set_defaults(work=lambda given: rehearse(given.folder, given.names, given.ranks))
    table = commands.add_parser("table", help="write the table of docs/performance.md")
    table.set_defaults(work=lambda given: write_table(PAGE, RESULTS))
    given = parser.parse_args()
    given.work(given)


def rehearse(folder: Path, names: Sequence[str], ranks: int) -> None:
    """Rehearse one step of each recipe that has no result."""
    for name in names or RECIPES:
        kept = RESULTS / f"{name}{f'_{ranks}_ranks' if ranks > 1 else ''}.json"
        if kept.exists():
            continue
        settings = RehearsalSettings(steps=1, ranks=ranks)
        found = rehearse_recipe(name, folder / kept.stem, settings)
        result = Result.of(found, head_commit())
        kept.parent.mkdir(exist_ok=True)
        atomic_write(kept, json.dumps(asdict(result), indent=1) + "\n")


def head_commit() -> str:
    """Return the commit of the checkout."""
    command = ("git", "-C", str(ROOT), "rev-parse", "--short=10", "HEAD")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def read_results(folder: Path) -> list[Result]:
    """Return all results in the order of `RECIPES`, those with several ranks last."""
    found = [
        Result(**json.loads(path.read_text(encoding="utf-8")))
        for path in sorted(folder.glob("*.json"))
    ]
    return sorted(found, key=lambda each: (each.ranks, RECIPES.index(each.recipe)))


def make_table(results: Sequence[Result]) -> str:
    """Return the table of results, and which recipes have none, as Markdown."""
    return "\n".join(_lines(results))


def _lines(results: Sequence[Result]) -> Iterator[str]:
    numbers = ("trajectories", "turns", "million tokens", "start, s")
    ends = ("GiB of all processes", "prefill", "lag, s", "GiB moved", "commit")
    columns = (*numbers, *(f"{name}, s" for name in SECONDS), *ends)
    yield f"| recipe | {' | '.join(columns)} |"
    yield f"|---|{'---:|' * len(columns)}"
    for each in results:
        name = f"`{each.recipe}`" + (f", {each.ranks} ranks" if each.ranks > 1 else "")
        seconds = (f"{value:,.0f}" if value else "" for value in each.seconds.values())
        cells = (
            f"{each.trajectories}",
            f"{each.turns:.1f}",
            f"{each.tokens / 1e6:.2f}",
            f"{each.start_s:.0f}",
            *seconds,
            f"{sum(each.memory_gib.values()):.1f}",
            "" if each.prefill is None else f"{each.prefill:.2f}",
            f"{each.lag_s:.2f}",
            f"{each.moved_gib:.2f}",
            each.commit,
        )
        yield f"| {name} | {' | '.join(cells)} |"
    missing = [name for name in RECIPES if name not in {each.recipe for each in results}]
    if missing:
        yield f"\nNot rehearsed yet: {', '.join(f'`{name}`' for name in missing)}."


def write_table(page: Path, folder: Path) -> Path:
    """Write the table between the marks of a page.

    Raises:
        UserError: the page has no marks.
    """
    before, begin, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise UserError(
            f"{page}: the marks between which the table is written are missing: {BEGIN!r}, {END!r}"
        )
    table = make_table(read_results(folder))
    return atomic_write(page, f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")


if __name__ == "__main__":
    main()
