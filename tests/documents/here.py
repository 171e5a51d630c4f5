"""Ingestion in this process, since starting another takes longer than all the pages of a test."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from docagent_rl.documents import RenderSettings, ingestion
from docagent_rl.documents.chunks import store_chunk
from docagent_rl.documents.settings import DocumentError
from docagent_rl.documents.sources import IngestReport
from docagent_rl.documents.workers import TaskOutcome


def files_of(root: Path) -> dict[str, bytes]:
    """Return the contents of all files of a store or an index by path."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


class HerePool:
    """A pool that runs tasks in this process, one by one, without limits of time and memory."""

    def __init__(self, workers, limits) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        pass

    def run(self, function, tasks):
        for task in tasks:
            try:
                yield TaskOutcome(task, function(task))
            except DocumentError as error:
                yield TaskOutcome(task, error=error)


def ingest_here(source: Path, store: Path, *, dpi: int = 20, **options) -> IngestReport:
    """Ingest as `ingest` does, without forcing each stored file to the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        patch.setattr(ingestion, "WorkerPool", HerePool)
        return ingestion.ingest(source, store, **{"settings": RenderSettings(dpi=dpi), **options})


@contextmanager
def interrupted_after(ranges: int) -> Iterator[list[int]]:
    """Simulate Ctrl-C after a number of page ranges are stored; return the first pages of all
    stored ranges.
    """
    whole, done = HerePool.run, []

    def run(self, function, tasks):
        for outcome in whole(self, function, tasks):
            if function is store_chunk:
                done.append(outcome.task.first)
            yield outcome
            if function is store_chunk and len(done) == ranges:
                raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HerePool, "run", run)
        yield done
