"""Commands that are killed, or run out of disk, at any change that they make to files, and run again."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from docagent_rl.training.warm import WarmPython
from tests.faults.bench import Bench
from tests.faults.campaign import Campaign, Case
from tests.faults.kill_jobs import JOBS, Job, modules
from tests.faults.verdict import Verdict

_ROOT = Path(__file__).parents[2]
_PATH = os.pathsep.join([str(_ROOT), str(_ROOT / "examples")])
_GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole parts, fill the unit interval evenly."""


class Benches:
    """Jobs are prepared when a case needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        tempfile.tempdir = str(folder)  # the warm process is killed with this one and cannot clean up
        self._warm = WarmPython(modules(), env={"PYTHONPATH": _PATH}).__enter__()
        self._benches: dict[str, Bench] = {}

    def of(self, job: Job) -> Bench:
        if job.name not in self._benches:
            folder = self._folder / str(len(self._benches))
            self._benches[job.name] = Bench(job, self._warm.executable, folder)
        return self._benches[job.name]


def attempt(benches: Benches, cases: Sequence[Case], folder: Path) -> list[Verdict]:
    return [_attempt(benches, case) for case in cases]


def _attempt(benches: Benches, case: Case) -> Verdict:
    """The jobs in turn; the points of a job are spread over all that it does."""
    turn, number = divmod(case.number, len(JOBS))
    bench, random = benches.of(JOBS[number]), case.random()
    point = 1 + int((turn * _GOLDEN + case.seed * _GOLDEN**2 + number * _GOLDEN**3) % 1 * bench.events)
    kind = random.random()
    if kind < 0.3:
        return bench.full(point)
    # a command that goes on does less, so that the second point is often behind its end
    return bench.killed([point] if kind < 0.8 else [point, random.randint(1, bench.events)])


CAMPAIGN = Campaign(
    name="kills",
    what="ingest, index build, data commands, demo, bias card, recorded sessions: SIGKILL or a full disk at "
    "any change to files, then the same command",
    short=20,
    long=300,
    prepare=Benches,
    attempt=attempt,
    seconds=120,
    start_seconds=180,
)
