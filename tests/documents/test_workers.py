from __future__ import annotations

import ctypes
import operator
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from docagent_rl.documents.chunks import probe
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.workers import WorkerPool


def run(function, tasks, workers, **limits):
    with WorkerPool(workers, IngestLimits(**{"seconds": 3600, **limits})) as pool:
        yield from pool.run(function, tasks)


def test_every_task_has_its_outcome_and_an_error_is_raised():
    with WorkerPool(2, IngestLimits(seconds=3600)) as pool:
        outcomes = pool.run(operator.neg, range(1, 40))
        assert sorted((o.task, o.result, o.error) for o in outcomes) == [(n, -n, None) for n in range(1, 40)]
        with pytest.raises(TypeError):
            list(pool.run(operator.neg, [1, "a"]))
        missing = SourceDocument("a", SourceKind.PDF, (Path("/nowhere/a.pdf"),), "a.pdf")
        (bad,) = pool.run(probe, [missing])
        assert isinstance(bad.error, DocumentError)


@pytest.mark.slow
def test_a_crash_in_native_code_costs_its_own_task_only():
    """`string_at(0)` reads address 0: the process dies as it would in a renderer's bug."""
    tasks = [b"a", b"b", 0, b"c", b"d", b"e", b"f"]
    outcomes = {o.task: o for o in run(ctypes.string_at, tasks, 2)}
    assert set(outcomes) == set(tasks)
    assert isinstance(outcomes.pop(0).error, DocumentError)
    assert all(o.error is None and o.result == o.task for o in outcomes.values())


@pytest.mark.slow
def test_a_task_that_hangs_costs_itself():
    hung, quick = run(time.sleep, [3600, 0], 1, seconds=5)
    assert "5 s" in str(hung.error)
    assert (quick.task, quick.error) == (0, None)


def test_tasks_are_read_as_the_work_goes_on_and_closing_waits_for_none():
    read = []

    def tasks():
        yield 0
        for number in range(1000):
            read.append(number)
            yield 3600  # nobody waits an hour for what has begun

    with closing(run(time.sleep, tasks(), 2)) as outcomes:
        assert next(outcomes).task == 0
    assert len(read) <= 4


def test_a_process_loads_what_reading_pages_needs():
    """What each worker imports is paid for by each: this was half a second."""
    heavy = ("pydantic", "pypdf", "pdf2image", "typer", "rich", "numpy", "ray", "torch", "docagent_rl.cli")
    code = (
        "import sys; import docagent_rl.documents.worker_process; import docagent_rl.documents.chunks; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "[]\n"


ORPHAN = """
import os, signal
from docagent_rl.documents.worker_process import _end_with_parent
read, write = os.pipe()
os.close(write)
if not (pid := os.fork()):
    _end_with_parent(read)
_, status = os.waitpid(pid, 0)
print(os.WTERMSIG(status) == signal.SIGKILL)
"""


def test_a_worker_in_the_group_of_others_ends_alone():
    """As one that is forked of a warm process is."""
    command = [sys.executable, "-c", ORPHAN]
    assert subprocess.check_output(command, text=True, start_new_session=True) == "True\n"
