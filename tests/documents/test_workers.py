from __future__ import annotations

import ctypes
import operator
import subprocess
import sys
import time
from contextlib import closing

import pytest

from docagent_rl.documents.chunks import probe
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.workers import WorkerPool


def run(function, tasks, workers, **limits):
    with WorkerPool(workers, IngestLimits(**limits)) as pool:
        yield from pool.run(function, tasks)


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_has_its_outcome(workers):
    outcomes = run(operator.neg, range(1, 40), workers)
    assert sorted((o.task, o.result, o.error) for o in outcomes) == [(n, -n, None) for n in range(1, 40)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_document_is_an_outcome_and_any_other_error_is_raised(tmp_path, workers):
    missing = SourceDocument("a", SourceKind.PDF, (tmp_path / "a.pdf",), "a.pdf")
    (outcome,) = run(probe, [missing], workers)
    assert isinstance(outcome.error, DocumentError)
    with pytest.raises(TypeError):
        list(run(operator.neg, [1, "a"], workers))


def test_a_crash_in_native_code_costs_its_own_task_only():
    """`string_at(0)` reads address 0: the process dies as it would in a renderer's bug."""
    tasks = [b"a", b"b", 0, b"c", b"d", b"e", b"f"]
    outcomes = {o.task: o for o in run(ctypes.string_at, tasks, 2)}
    assert set(outcomes) == set(tasks)
    assert "killed" in str(outcomes.pop(0).error)
    assert all(o.error is None and o.result == o.task for o in outcomes.values())


def test_tasks_are_read_as_the_work_goes_on():
    read = []

    def tasks():
        for number in range(1000):
            read.append(number)
            yield number

    with closing(run(operator.neg, tasks(), 2)) as outcomes:
        next(outcomes)
        assert len(read) <= 4
    assert len(read) <= 4


def test_closing_does_not_wait_for_what_has_not_begun():
    started = time.monotonic()
    with closing(run(time.sleep, [0.01, *[0.2] * 500], 2)) as outcomes:
        next(outcomes)
    assert time.monotonic() - started < 20


def test_a_process_loads_what_reading_pages_needs():
    """What each worker imports is paid for by each: this was half a second."""
    heavy = ("pydantic", "pypdf", "pdf2image", "typer", "rich", "numpy", "ray", "torch", "docagent_rl.cli")
    code = (
        "import sys; import docagent_rl.documents.worker_process; import docagent_rl.documents.chunks; "
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"


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
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], capture_output=True, text=True, check=True, start_new_session=True
    )
    assert done.stdout == "True\n"
