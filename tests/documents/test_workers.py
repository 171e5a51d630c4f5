import ctypes
import operator
import time
from contextlib import closing
from itertools import chain, repeat
from pathlib import Path
from types import SimpleNamespace

import pytest

from docagent_rl.documents import workers
from docagent_rl.documents.chunks import probe_source
from docagent_rl.documents.ingestion import ingest
from docagent_rl.documents.settings import DocumentError, IngestLimits
from docagent_rl.documents.sources import SourceDocument, SourceKind
from docagent_rl.documents.workers import WorkerPool
from tests.documents.conftest import write_pdf_objects

SELF = (
    "<</Type/XObject/Subtype/Form/BBox[0 0 200 100]/Group<</S/Transparency>>"
    "/Resources<</XObject<</F 5 0 R>>>>/Length 23>>stream\n/F Do /F Do /F Do /F Do\nendstream"
)


def run(function, tasks, processes):
    with WorkerPool(processes, IngestLimits(seconds=3600)) as pool:
        yield from pool.run(function, tasks)


def test_every_task_has_its_outcome_and_an_error_is_raised():
    with WorkerPool(2, IngestLimits(seconds=3600)) as pool:
        outcomes = pool.run(operator.neg, range(1, 40))
        assert sorted((o.task, o.result, o.error) for o in outcomes) == [
            (n, -n, None) for n in range(1, 40)
        ]
        with pytest.raises(TypeError):
            list(pool.run(operator.neg, [1, "a"]))
        missing = SourceDocument("a", SourceKind.PDF, (Path("/nowhere/a.pdf"),), "a.pdf")
        (bad,) = pool.run(probe_source, [missing])
        assert isinstance(bad.error, DocumentError)


@pytest.mark.slow
def test_a_crash_in_native_code_costs_its_own_task_only():
    """`string_at(0)` reads address 0: the process dies as it would in a renderer's bug."""
    outcomes = {o.task: o for o in run(ctypes.string_at, [b"a", 0, b"b", b"c"], 2)}
    assert isinstance(outcomes.pop(0).error, DocumentError)
    assert {task: o.result for task, o in outcomes.items()} == {
        name: name for name in (b"a", b"b", b"c")
    }


def test_a_task_that_hangs_costs_itself(monkeypatch):
    """The clock jumps by two hours as soon as the first task has begun."""
    clock = chain([0.0], repeat(7200.0))
    monkeypatch.setattr(workers, "time", SimpleNamespace(monotonic=clock.__next__))
    hung, quick = run(time.sleep, [36_000, 0], 1)
    assert "3600 s" in str(hung.error)
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


@pytest.mark.slow
def test_a_page_that_takes_all_memory_is_reported_and_the_rest_goes_on(
    inbox, store_path, write_pdf
):
    """The form on the page draws itself."""
    write_pdf_objects(inbox / "recursive.pdf", "/F Do", "/XObject<</F 5 0 R>>", SELF)
    write_pdf(inbox / "good.pdf", ["x"])
    report = ingest(inbox, store_path, limits=IngestLimits(memory_gib=0.3, seconds=3600), workers=1)
    assert report.ingested == ["good"]
    (failure,) = report.failed
    assert (failure.name, failure.reason[:6]) == ("recursive.pdf", "page 1")
    assert "0.3 GiB" in failure.reason
