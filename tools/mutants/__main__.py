"""Try the mutants of the core: `python -m tools.mutants [--only PART] [--sample N]`.

Survivors are printed. Those of `equivalent.txt` next to this file change
nothing that can be seen, each with its reason, and count neither way.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tools.mutants.changes import Mutant, mutants
from tools.mutants.trial import Outcome, finish, load_libraries, start

PARTS = {
    "ledger": ("docagent_rl/rollout/ledger.py",),
    "advantages": ("docagent_rl/advantages",),
    "losses": ("docagent_rl/losses",),
    "rewards": ("docagent_rl/rewards",),
    "coordinates": ("docagent_rl/actions/coordinates.py",),
}
GOAL = 0.95
PATIENCE_S = 120
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
console = Console()


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant of a file, with the tests that are to notice it: the file's own, then the part's."""

    path: Path
    mutant: Mutant

    @property
    def key(self) -> str:
        """How it is named in `equivalent.txt`."""
        return f"{self.path}: {self.mutant.name}"

    @property
    def tests(self) -> list[list[str]]:
        """The mirrored file of tests, and if that notices nothing all of the folder."""
        folder = Path("tests", *self.path.parent.parts[1:])
        own = folder / f"test_{self.path.stem}.py"
        return [*([[str(own)]] if own.exists() else []), [str(Path(*folder.parts[:2]))]]


def files_of(part: str) -> Iterator[Path]:
    """Find the modules of a part."""
    for name in PARTS[part]:
        path = Path(name)
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def equivalents() -> set[str]:
    """Read the mutants that change nothing; a line is `KEY | reason`."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.partition(" | ")[0] for line in lines if line and not line.startswith("#")}


def chosen(part: str, matching: str, sample: int | None, seed: int) -> list[Trial]:
    """List the trials of a part."""
    left_out = equivalents()
    paths = [path for path in files_of(part) if matching in str(path)]
    trials = [Trial(path, each) for path in paths for each in mutants(path.read_text(encoding="utf-8"))]
    trials = [trial for trial in trials if trial.key not in left_out]
    if sample is not None and sample < len(trials):
        kept = set(random.Random(seed).sample(range(len(trials)), sample))
        trials = [trial for n, trial in enumerate(trials) if n in kept]
    return trials


def try_all(trials: Sequence[Trial], jobs: int) -> dict[str, Outcome]:
    """Try mutants, some at once, and print those that survive."""
    outcomes: dict[str, Outcome] = {}
    waiting = [(trial, 0) for trial in reversed(trials)]
    running: list[tuple[Trial, int, int, float]] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            trial, stage = waiting.pop()
            child = start(trial.path, trial.mutant.source, trial.tests[stage])
            running.append((trial, stage, child, time.monotonic() + PATIENCE_S))
        trial, stage, child, deadline = running.pop(0)
        outcome = finish(child, deadline)
        if outcome in (Outcome.SURVIVED, Outcome.UNKNOWN) and stage + 1 < len(trial.tests):
            waiting.append((trial, stage + 1))
            continue
        outcomes[trial.key] = outcome
        if outcome not in (Outcome.KILLED, Outcome.TIMED_OUT):
            console.print(
                f"{outcome}: {trial.path}:{trial.mutant.line}: {trial.mutant.name}",
                markup=False,
                soft_wrap=True,
            )
    return outcomes


def table(results: dict[str, dict[str, Outcome]]) -> Table:
    """Count outcomes by part."""
    shown = Table("part", "mutants", *[outcome.value for outcome in Outcome], "% killed")
    for part, outcomes in results.items():
        counts = Counter(outcomes.values())
        rate = killed(outcomes)
        numbers = [str(counts[outcome]) for outcome in Outcome]
        shown.add_row(part, str(len(outcomes)), *numbers, f"{100 * rate:.1f}")
    return shown


def killed(outcomes: dict[str, Outcome]) -> float:
    """Return the share of mutants that a test notices."""
    noticed = sum(outcome in (Outcome.KILLED, Outcome.TIMED_OUT) for outcome in outcomes.values())
    return noticed / max(1, len(outcomes))


def main() -> None:
    """Try the chosen parts; exit with 1 where fewer than 95 % are killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument("--only", choices=PARTS, action="append", help="a part; more than once for several")
    parser.add_argument("--matching", default="", help="files whose path holds this text")
    parser.add_argument("--sample", type=int, help="mutants of each part, drawn by --seed; all by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    parts = options.only or list(PARTS)
    trials = {part: chosen(part, options.matching, options.sample, options.seed) for part in parts}
    folders = sorted({trial.tests[-1][0] for each in trials.values() for trial in each})
    load_libraries(folders)
    results = {part: try_all(each, options.jobs) for part, each in trials.items()}
    console.print(table(results))
    raise SystemExit(min(killed(outcomes) for outcomes in results.values()) < GOAL)


if __name__ == "__main__":
    main()
