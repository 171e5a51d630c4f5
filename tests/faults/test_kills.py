"""Commands are killed or run out of disk at any change that they make to files, and run again."""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.seals import SEAL, read_seal
from docagent_rl.checkpoints.audit import audit_sealed
from docagent_rl.documents.audit import audit_store
from docagent_rl.documents.layout import MARKER
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.indexes import audit_index
from tests.faults.conftest import chance, is_clear
from tests.faults.file_events import FULL, KILL, Plan, events, pids
from tests.faults.kill_jobs import IMPORTS, JOBS, QUICK, Job
from tests.processes import ends
from tools.warm import WarmPython

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
CASES = 2 * len(QUICK)
GOLDEN = 0.6180339887498949
"""Multiples of it, without their whole parts, fill the unit interval evenly."""


@dataclass(frozen=True)
class Ended:
    """The status of a command (negative: a signal), its output, and the number of its changes to
    files.
    """

    status: int
    output: str
    events: int


class Bench:
    """A job, and what it makes if nothing disturbs it."""

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
        assert self.events > 0
        assert self._after != self._before

    def killed(self, *points: int) -> None:
        """Kill the command at each of the points, one run per point, then let it finish."""
        work = self._copy()
        for point in points:
            ended = self._run(work, KILL, point)
            assert ended.status < 0 or ended.events < point, ended
            self._check(work)
        self._finish(work)

    def full(self, point: int) -> None:
        """Fill the disk from a point on, then free it."""
        work = self._copy()
        ended = self._run(work, FULL, point)
        assert ended.status == 0 or (
            ended.status == 2 and is_clear(ended.output, "No space left")
        ), ended
        assert "Traceback" not in ended.output
        self._check(work)
        self._finish(work)

    def _copy(self) -> Path:
        """Return a fresh copy of the inputs."""
        self._number += 1
        return Path(shutil.copytree(self._inputs, self._folder / str(self._number)))

    def _run(self, work: Path, fault: str = KILL, at: int = 0) -> Ended:
        """Run the command; its processes have ended when this returns."""
        state, temporary = work.with_name(f"{work.name}.state"), work.with_name(f"{work.name}.tmp")
        for each in (state, temporary):
            each.mkdir()
        plan = Plan(str(state), f"{work}{os.sep}", fault, at)
        env = {
            **os.environ,
            **plan.env(),
            "TMPDIR": str(temporary),
            "OMP_NUM_THREADS": "1",
            "COLUMNS": "200",
        }
        output = state / "output"
        with output.open("wb") as file:
            done = subprocess.run(
                [self._python, *self._job.argv],
                cwd=work,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                timeout=300,
                check=False,
            )
        assert all(ends(pid, within=60) for pid in pids(state)), "processes are left"
        ended = Ended(done.returncode, output.read_text(errors="replace"), events(state))
        for each in (state, temporary):
            shutil.rmtree(each)
        return ended

    def _check(self, work: Path) -> None:
        """Assert that a reader finds everything as before the command or as after it."""
        for name, digest in _tree(work).items():
            visible = not any(part.startswith(".") for part in Path(name).parts)
            known = digest in (self._before.get(name), self._after.get(name))
            known = known or Path(name).name == SEAL  # which `_damages` compares with the files
            assert known or not visible or any(fnmatch(name, each) for each in self._job.halfway), (
                name
            )
        assert [
            name for name in self._before.keys() & self._after if not (work / name).exists()
        ] == []
        assert list(_damages(work)) == []

    def _finish(self, work: Path) -> None:
        """Run the same command again, undisturbed, and assert that it leaves what it would have
        left at once.
        """
        ended = self._run(work)
        assert ended.status == 0, ended
        assert _tree(work) == self._after
        shutil.rmtree(work)


def _tree(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, and the folders."""
    paths = [path for path in folder.rglob("*") if "__pycache__" not in path.parts]
    return {
        str(path.relative_to(folder)): _digest(path) if path.is_file() else "" for path in paths
    }


def _digest(path: Path) -> str:
    """Return the SHA-256 of a file; for a seal, which also records its history, only that of its
    final entries.
    """
    content = path.read_bytes()
    if path.name == SEAL:
        records = read_seal(path.parent).records
        content = repr(sorted((name, each.sha256) for name, each in records.items())).encode()
    return hashlib.sha256(content).hexdigest()


def _damages(work: Path) -> Iterator[str]:
    """Return the damages of the stores, indexes and tables that exist."""
    for marker in work.rglob(MARKER):
        yield from (f"{d.path}: {d.problem}" for d in audit_store(marker.parent).damages)
    for header in work.rglob(HEADER):
        yield from (f"{d.path}: {d.problem}" for d in audit_index(header.parent).damages)
    for seal in work.rglob(SEAL):
        yield from (f"{d.path}: {d.problem}" for d in audit_sealed(seal.parent).damages)
    for table in work.rglob("[!.]*.parquet"):
        try:
            pq.read_table(table)
        except (OSError, ValueError, UserError) as error:
            yield f"{table}: {error}"


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    """Return a function that prepares a job when a case needs it."""
    made: dict[str, Bench] = {}
    with WarmPython(IMPORTS, env={"PYTHONPATH": str(ROOT)}) as warm:

        def of(job: Job) -> Bench:
            if job.name not in made:
                made[job.name] = Bench(job, warm.executable, tmp_path_factory.mktemp("bench"))
            return made[job.name]

        yield of


def test_a_command_that_was_cut_short_harms_nothing_and_goes_on(bench, number):
    """The quick jobs are killed once and meet a full disk once; then all jobs have their turns."""
    short, random = number < CASES, chance("kills", number)
    jobs = QUICK if short else JOBS
    of_job = bench(jobs[number % len(jobs)])
    point = 1 + int((number + 0.5) * GOLDEN % 1 * of_job.events)
    if number >= len(QUICK) if short else random.random() < 0.3:
        of_job.full(point)
    else:
        # a command that goes on does less, so that the second point is often behind its end
        of_job.killed(point, *([random.randint(1, of_job.events)] if random.random() < 0.3 else []))
