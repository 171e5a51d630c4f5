from __future__ import annotations

import ctypes
import operator
import time
from contextlib import closing

import pytest

from docagent_rl.documents.chunks import probe
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.workers import run_unordered


@pytest.mark.parametrize("workers", [1, 2])
def test_every_task_has_its_outcome(workers):
    outcomes = run_unordered(operator.neg, range(1, 40), workers=workers)
    assert sorted((o.task, o.result, o.error) for o in outcomes) == [(n, -n, None) for n in range(1, 40)]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_bad_document_is_an_outcome_and_any_other_error_is_raised(tmp_path, workers):
    missing = SourceDocument("a", SourceKind.PDF, (tmp_path / "a.pdf",), "a.pdf")
    (outcome,) = run_unordered(probe, [missing], workers=workers)
    assert isinstance(outcome.error, DocumentError)
    with pytest.raises(TypeError):
        list(run_unordered(operator.neg, [1, "a"], workers=workers))


def test_a_crash_in_native_code_costs_its_own_task_only():
    """`string_at(0)` reads address 0: the process dies as it would in a renderer's bug."""
    tasks = [b"a", b"b", 0, b"c", b"d", b"e", b"f"]
    outcomes = {o.task: o for o in run_unordered(ctypes.string_at, tasks, workers=2)}
    assert set(outcomes) == set(tasks)
    assert "killed" in str(outcomes.pop(0).error)
    assert all(o.error is None and o.result == o.task for o in outcomes.values())


def test_tasks_are_read_as_the_work_goes_on():
    read = []

    def tasks():
        for number in range(1000):
            read.append(number)
            yield number

    with closing(run_unordered(operator.neg, tasks(), workers=2)) as outcomes:
        next(outcomes)
        assert len(read) <= 4
    assert len(read) <= 4


def test_closing_does_not_wait_for_what_has_not_begun():
    started = time.monotonic()
    with closing(run_unordered(time.sleep, [0.01, *[0.2] * 500], workers=2)) as outcomes:
        next(outcomes)
    assert time.monotonic() - started < 20
