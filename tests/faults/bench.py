"""Runs a command with a fault at one of its file events, and looks at what it leaves."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pyarrow.parquet as pq

from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.layout import MARKER
from docagent_rl.errors import UserError
from docagent_rl.retrieval.audit import audit_index
from docagent_rl.retrieval.index_files import HEADER
from tests.faults.file_events import Fault, Plan, events, pids
from tests.faults.kill_jobs import Job
from tests.faults.verdict import Fault as Bad
from tests.faults.verdict import Verdict, bad, refused, right
from tests.processes import ends

TIMEOUT = 300
Tree = dict[str, str]


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
        self.job = job
        self._python = python
        self._folder = folder
        self._number = 0
        self._inputs = folder / "inputs"
        self._inputs.mkdir(parents=True)
        job.prepare(self._inputs)
        self.before = tree(self._inputs)
        work = self.work()
        ended = self.run(work)
        assert ended.status == 0, ended.output
        self.events = ended.events
        self.after = tree(work)
        assert self.after != self.before
        shutil.rmtree(work)

    def work(self) -> Path:
        """A fresh copy of the inputs."""
        self._number += 1
        return Path(shutil.copytree(self._inputs, self._folder / str(self._number)))

    def run(self, work: Path, fault: Fault = Fault.KILL, at: int = 0) -> Ended:
        """Run the command; its processes have ended when this returns."""
        state, temporary = work.with_name(f"{work.name}.state"), work.with_name(f"{work.name}.tmp")
        for each in (state, temporary):
            each.mkdir()
        plan = Plan(str(state), f"{work}{os.sep}", fault.value, at)
        env = {**os.environ, **plan.env(), "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
        output = state / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                [self._python, *self.job.argv],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=TIMEOUT,
                check=False,
            )
        assert all(ends(pid) for pid in pids(state)), "processes are left"
        ended = Ended(done.returncode, output.read_text(errors="replace"), events(state))
        for each in (state, temporary):
            shutil.rmtree(each)
        return ended

    def killed(self, points: Sequence[int]) -> Verdict:
        """Kill the command at each of the points, one run a point, then let it finish."""
        work = self.work()
        for point in points:
            ended = self.run(work, Fault.KILL, point)
            if ended.status >= 0 and ended.events >= point:
                return bad(Bad.RAW, f"a killed command ended with {ended.status}: {ended.output}")
            if problem := self.broken(work):
                return bad(Bad.WRONG, f"after a kill: {problem}")
        return self._finished(work) or right()

    def full(self, point: int) -> Verdict:
        """Let the disk be full from a point on, then make room."""
        work = self.work()
        ended = self.run(work, Fault.FULL, point)
        if ended.status not in (0, 2) or "Traceback" in ended.output:
            return bad(Bad.RAW, f"a full disk: status {ended.status}: {ended.output}")
        if problem := self.broken(work):
            return bad(Bad.WRONG, f"on a full disk: {problem}")
        told = refused(ended.output, "No space left") if ended.status else right()
        return self._finished(work) or told

    def broken(self, work: Path) -> str | None:
        """What a reader would find that is neither as it was before the command nor as it is after it."""
        for name, digest in tree(work).items():
            visible = not any(part.startswith(".") for part in Path(name).parts)
            known = digest in (self.before.get(name), self.after.get(name))
            if visible and not known and not any(fnmatch(name, each) for each in self.job.halfway):
                return f"{name} is neither the old nor the new one"
        missing = [name for name in self.before if name in self.after and not (work / name).exists()]
        if missing:
            return f"{missing[0]} is gone"
        return next(_damages(work), None)

    def _finished(self, work: Path) -> Verdict | None:
        """What is wrong after the same command, undisturbed."""
        ended = self.run(work)
        if ended.status != 0:
            return bad(Bad.WRONG, f"the command again: status {ended.status}: {ended.output}")
        found = tree(work)
        wrong = sorted(name for name in found.keys() | self.after if found.get(name) != self.after.get(name))
        if wrong:
            return bad(
                Bad.LEFTOVER, f"the command again left {len(wrong)} other files: {', '.join(wrong[:5])}"
            )
        shutil.rmtree(work)
        return None


def tree(folder: Path) -> Tree:
    """SHA-256 of every file below a folder, and its folders."""
    found = {}
    for path in folder.rglob("*"):
        if "__pycache__" not in path.parts:
            name = str(path.relative_to(folder))
            found[name] = _digest(path) if path.is_file() else "folder"
    return found


def _digest(path: Path) -> str:
    data = path.read_bytes()
    if path.parent.name == "trajectories" and not path.name.startswith("."):
        # the seconds that its turns took are no other time's
        sessions = [json.loads(line) for line in data.splitlines()]
        for turn in (turn for session in sessions for turn in session["turns"]):
            turn["seconds"] = {}
            for search in turn.get("searches", ()):
                search["seconds"] = 0.0
        data = json.dumps(sessions).encode()
    return hashlib.sha256(data).hexdigest()


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
