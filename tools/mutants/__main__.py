"""Try the mutants of the core: `python -m tools.mutants [--only PART] [--sample N]`.

Mutants that no test detects are printed. Those listed in `equivalent.txt` next to this file, each
with a reason, change nothing observable and are not tried.
"""

from __future__ import annotations

import argparse
import os
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from tools.mutants.changes import Mutant, mutants
from tools.mutants.reach import Reached
from tools.mutants.trial import OPTIONS, Outcome, finish, load, start
from tools.mutants.workshop import Workshop

PARTS = {
    "rollout": ("docagent_rl/rollout",),
    "samples": ("docagent_rl/samples",),
    "importers": ("docagent_rl/lab/importers",),
    "envs": ("docagent_rl/envs",),
    "advantages": ("docagent_rl/advantages",),
    "losses": ("docagent_rl/losses",),
    "rewards": ("docagent_rl/rewards",),
    "coordinates": ("docagent_rl/actions/coordinates.py",),
}
ELSEWHERE = {
    "advantages": ("tests/examples/bias_card/test_card.py",),
    "samples": ("tests/commands/test_data.py",),
    "importers": ("tests/commands/test_data_import.py",),
    "envs": ("tests/systems",),
}
"""Tests of a part that are outside of its mirrored folder: the bias card for advantages, commands
for samples and importers, and the systems for environments.
"""
GOAL = 0.95
PATIENCE_S = 60
EQUIVALENT = Path(__file__).with_name("equivalent.txt")
console = Console(file=sys.__stdout__)


@dataclass(frozen=True, slots=True)
class Trial:
    """A mutant of a file."""

    path: Path
    mutant: Mutant

    @property
    def key(self) -> str:
        """The mutant's name in `equivalent.txt`."""
        return f"{self.path}: {self.mutant.name}"

    @property
    def tests(self) -> tuple[str, ...]:
        """The folders and files with tests of the mutant's part, the mirrored folder first."""
        _, part, *inner = self.path.parts[:-1]
        folder = f"tests/{part}"
        if part == "lab":
            part = inner[0]
            folder = f"tests/lab/{part}"
        return folder, *ELSEWHERE.get(part, ())


def files_of(part: str) -> Iterator[Path]:
    """Yield the modules of a part."""
    for name in PARTS[part]:
        path = Path(name)
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path]


def equivalents() -> set[str]:
    """Return the keys of the mutants in `equivalent.txt`, whose lines are `KEY | reason`."""
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {line.partition(" | ")[0] for line in lines if line and not line.startswith("#")}


def chosen(part: str, matching: str, sample: int | None, seed: int) -> list[Trial]:
    """Return the trials of a part.

    Args:
        part: a name in `PARTS`.
        matching: a text that the path of a module must contain.
        sample: the number of trials to draw; None for all.
        seed: the seed of the draw.
    """
    left_out = equivalents()
    paths = [path for path in files_of(part) if matching in str(path)]
    trials = [
        Trial(path, each) for path in paths for each in mutants(path.read_text(encoding="utf-8"))
    ]
    trials = [trial for trial in trials if trial.key not in left_out]
    if sample is not None and sample < len(trials):
        kept = set(random.Random(seed).sample(range(len(trials)), sample))
        trials = [trial for n, trial in enumerate(trials) if n in kept]
    return trials


def try_all(
    trials: Sequence[Trial],
    reached: Reached,
    start: Callable[[Path, str, Sequence[str]], int | None],
    jobs: int,
) -> tuple[dict[str, Outcome], list[Trial]]:
    """Try mutants, some in parallel, and print the survivors.

    Returns:
        the outcomes by key, and the mutants that `start` cannot try.
    """
    outcomes: dict[str, Outcome] = {}
    left: list[Trial] = []
    waiting = list(reversed(trials))
    running: list[tuple[Trial, int, float]] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            trial = waiting.pop()
            names = reached.tests(trial.path, trial.mutant.lines, trial.tests)
            child = start(trial.path, trial.mutant.source, names) if names else 0
            if child is None:
                left.append(trial)
            elif child:
                patience = PATIENCE_S + 10 * sum(reached.seconds[name] for name in names)
                running.append((trial, child, time.monotonic() + patience))
            else:
                _record(outcomes, trial, Outcome.UNKNOWN)
        if running:
            trial, child, deadline = running.pop(0)
            _record(outcomes, trial, finish(child, deadline))
    return outcomes, left


def try_functions(
    trials: Sequence[Trial], jobs: int
) -> tuple[dict[str, Outcome], list[Trial], Reached]:
    """Try the mutants of functions, each in a fork of a process that has collected the tests.

    Returns:
        the outcomes by key, the mutants that need an import, and the lines that each test runs.
        Afterwards the libraries that the tests use are loaded.
    """
    folders = sorted({name for trial in trials for name in trial.tests})
    paths = sorted({trial.path for trial in trials})
    read, write = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(read)
            status = _in_workshop(trials, folders, paths, jobs, write)
        finally:
            os._exit(status)
    os.close(write)
    with os.fdopen(read, "rb") as result:
        text = result.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit(f"{' '.join(folders)}: the tests fail without a mutant")
    outcomes, left, reached, libraries = pickle.loads(text)
    load(libraries)
    return outcomes, left, reached


def _in_workshop(
    trials: Sequence[Trial], folders: Sequence[str], paths: Sequence[Path], jobs: int, write: int
) -> int:
    done: list[object] = []

    def work(workshop: Workshop) -> None:
        imports = [t for t in trials if workshop.reached.everywhere(t.path, t.mutant.lines)]
        others = [t for t in trials if not workshop.reached.everywhere(t.path, t.mutant.lines)]
        outcomes, left = try_all(others, workshop.reached, workshop.start, jobs)
        done.extend([outcomes, [*imports, *left], workshop.reached, workshop.libraries])

    workshop = Workshop(paths, work)
    workshop.reach.watch()
    status = int(pytest.main([*OPTIONS, *folders], plugins=[workshop]))
    with os.fdopen(write, "wb") as out:
        pickle.dump(tuple(done), out)
    # pytest's status is not that of tests, which ran only in forks of this process
    return 0 if done else status or 1


def _record(outcomes: dict[str, Outcome], trial: Trial, outcome: Outcome) -> None:
    outcomes[trial.key] = outcome
    if outcome not in (Outcome.KILLED, Outcome.TIMED_OUT):
        text = f"{outcome}: {trial.path}:{trial.mutant.line}: {trial.mutant.name}"
        console.print(text, markup=False, emoji=False, soft_wrap=True)
        console.file.flush()


def table(results: dict[str, dict[str, Outcome]]) -> Table:
    """Return a table that counts outcomes by part."""
    shown = Table("part", "mutants", *[outcome.value for outcome in Outcome], "% killed")
    for part, outcomes in results.items():
        counts = Counter(outcomes.values())
        rate = killed(outcomes)
        numbers = [str(counts[outcome]) for outcome in Outcome]
        shown.add_row(part, str(len(outcomes)), *numbers, f"{100 * rate:.1f}")
    return shown


def killed(outcomes: dict[str, Outcome]) -> float:
    """Return the share of mutants that a test detects."""
    noticed = sum(outcome in (Outcome.KILLED, Outcome.TIMED_OUT) for outcome in outcomes.values())
    return noticed / max(1, len(outcomes))


def main() -> None:
    """Try the chosen parts; exit with 1 if fewer than 95 % are killed."""
    parser = argparse.ArgumentParser(prog="python -m tools.mutants", description=__doc__)
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="a part to try; repeatable; default: all"
    )
    parser.add_argument("--matching", default="", help="try only files whose path has this text")
    parser.add_argument(
        "--sample", type=int, help="mutants to draw of each part, with --seed; all by default"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    os.environ |= {"OMP_NUM_THREADS": "1", "HYPOTHESIS_PROFILE": "first"}
    parts = options.only or list(PARTS)
    trials = {part: chosen(part, options.matching, options.sample, options.seed) for part in parts}
    every = [trial for each in trials.values() for trial in each]
    outcomes, left, reached = try_functions(every, options.jobs)
    outcomes |= try_all(left, reached, start, options.jobs)[0]
    results = {
        part: {trial.key: outcomes[trial.key] for trial in each} for part, each in trials.items()
    }
    console.print(table(results))
    raise SystemExit(min(killed(outcomes) for outcomes in results.values()) < GOAL)


if __name__ == "__main__":
    main()
