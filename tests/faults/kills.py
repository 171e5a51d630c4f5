"""Commands that are killed, or run out of disk, at any change that they make to files, and run again."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pyarrow.parquet as pq

from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.layout import MARKER
from docagent_rl.errors import UserError
from docagent_rl.retrieval.audit import audit_index
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.training.warm import WarmPython
from tests.faults.campaign import Campaign, Case, one_by_one
from tests.faults.file_events import FULL, KILL, Plan, events, pids
from tests.faults.kill_jobs import IMPORTS, JOBS, QUICK, Job
from tests.faults.verdict import Fault, Verdict, bad, refused, right
from tests.processes import ends

_ROOT = Path(__file__).parents[2]
_TIMEOUT = 300
_GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole parts, fill the unit interval evenly."""


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Args:
        status: of its process; negative: a signal.
        output: both of its streams.
        events: how much it and its processes did to files.
    """

    status: int
    output: str
    events: int


class Bench:
    """A job and what it makes when nothing disturbs it.

    Args:
        job: the command.
        python: a warm interpreter.
        folder: for everything.
    """

    def __init__(self, job: Job, python: Path, folder: Path) -> None:
        self._job, self._python, self._folder, self._number = job, python, folder, 0
        self._inputs = folder / "inputs"
        self._inputs.mkdir(parents=True)
        job.prepare(self._inputs)
        self._before = _tree(self._inputs)
        work = self._copy()
        ended = self._run(work)
        assert ended.status == 0, ended.output
        self.events, self._after = ended.events, _tree(work)
        assert self._after != self._before

    def killed(self, *points: int) -> Verdict:
        """Kill the command at each of the points, one run a point, then let it finish."""
        work = self._copy()
        for point in points:
            ended = self._run(work, KILL, point)
            if ended.status >= 0 and ended.events >= point:
                return bad(Fault.RAW, f"a killed command ended with {ended.status}: {ended.output}")
            if problem := self._broken(work):
                return bad(Fault.WRONG, f"after a kill: {problem}")
        return self._finished(work) or right()

    def full(self, point: int) -> Verdict:
        """Let the disk be full from a point on, then make room."""
        work = self._copy()
        ended = self._run(work, FULL, point)
        if ended.status not in (0, 2) or "Traceback" in ended.output:
            return bad(Fault.RAW, f"a full disk: status {ended.status}: {ended.output}")
        if problem := self._broken(work):
            return bad(Fault.WRONG, f"on a full disk: {problem}")
        told = refused(ended.output, "No space left") if ended.status else right()
        return self._finished(work) or told

    def _copy(self) -> Path:
        """A fresh copy of the inputs."""
        self._number += 1
        return Path(shutil.copytree(self._inputs, self._folder / str(self._number)))

    def _run(self, work: Path, fault: str = KILL, at: int = 0) -> Ended:
        """Run the command; its processes have ended when this returns."""
        state, temporary = work.with_name(f"{work.name}.state"), work.with_name(f"{work.name}.tmp")
        for each in (state, temporary):
            each.mkdir()
        plan = Plan(str(state), f"{work}{os.sep}", fault, at)
        env = {**os.environ, **plan.env(), "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        output = state / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                [self._python, *self._job.argv],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=_TIMEOUT,
                check=False,
            )
        assert all(ends(pid, within=60) for pid in pids(state)), "processes are left"
        ended = Ended(done.returncode, output.read_text(errors="replace"), events(state))
        for each in (state, temporary):
            shutil.rmtree(each)
        return ended

    def _broken(self, work: Path) -> str | None:
        """What a reader would find that is neither as it was before the command nor as it is after it."""
        for name, digest in _tree(work).items():
            visible = not any(part.startswith(".") for part in Path(name).parts)
            known = digest in (self._before.get(name), self._after.get(name))
            if visible and not known and not any(fnmatch(name, each) for each in self._job.halfway):
                return f"{name} is neither the old nor the new one"
        missing = [name for name in self._before if name in self._after and not (work / name).exists()]
        return f"{missing[0]} is gone" if missing else next(_damages(work), None)

    def _finished(self, work: Path) -> Verdict | None:
        """What is wrong after the same command, undisturbed."""
        ended = self._run(work)
        if ended.status != 0:
            return bad(Fault.WRONG, f"the command again: status {ended.status}: {ended.output}")
        found = _tree(work)
        names = sorted(found.keys() | self._after)
        wrong = [name for name in names if found.get(name) != self._after.get(name)]
        shutil.rmtree(work)
        return bad(Fault.LEFTOVER, f"the command again left other files: {wrong[:5]}") if wrong else None


def _tree(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, and its folders."""
    paths = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""
        for path in paths
    }


def _damages(work: Path) -> Iterator[str]:
    """Damage of the stores, the indexes and the tables that are there."""
    for marker in work.rglob(MARKER):
        yield from (f"{d.path}: {d.problem}" for d in audit_store(marker.parent).damages)
    for header in work.rglob(HEADER):
        yield from (f"{d.path}: {d.problem}" for d in audit_index(header.parent).damages)
    for table in work.rglob("[!.]*.parquet"):
        try:
            pq.read_table(table)
        except (OSError, ValueError, UserError) as error:
            yield f"{table}: {error}"


class Benches:
    """Jobs are prepared when a case needs them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        tempfile.tempdir = str(folder)  # the warm process is killed with this one and cannot clean up
        self._warm = WarmPython(IMPORTS, env={"PYTHONPATH": str(_ROOT)}).__enter__()
        self._benches: dict[str, Bench] = {}

    def of(self, job: Job) -> Bench:
        if job.name not in self._benches:
            folder = self._folder / str(len(self._benches))
            self._benches[job.name] = Bench(job, self._warm.executable, folder)
        return self._benches[job.name]


def attempt(benches: Benches, case: Case, folder: Path) -> Verdict:
    """The quick jobs are killed once and meet a full disk once; then all have their turns."""
    short = case.number < 2 * len(QUICK)
    bench, random = benches.of(case.kind(QUICK if short else JOBS)), case.random()
    point = 1 + int((case.number * _GOLDEN + case.seed * _GOLDEN**2) % 1 * bench.events)
    if case.number >= len(QUICK) if short else random.random() < 0.3:
        return bench.full(point)
    # a command that goes on does less, so that the second point is often behind its end
    return bench.killed(point, *([random.randint(1, bench.events)] if random.random() < 0.3 else []))


CAMPAIGN = Campaign(
    name="kills",
    what="ingest, index build, data commands, demo, sessions: SIGKILL or a full disk at any change to files, "
    "then the same command",
    short=2 * len(QUICK),
    long=300,
    prepare=Benches,
    attempt=one_by_one(attempt),
    seconds=900,
    memory_gib=6,
)
