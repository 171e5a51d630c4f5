"""`ingest` in this process: to start another takes longer than all the pages of a test."""

from __future__ import annotations

from pathlib import Path

import pytest

from docagent_rl.documents import RenderSettings, ingestion
from docagent_rl.documents.failures import DocumentError
from docagent_rl.documents.report import IngestReport
from docagent_rl.documents.workers import Outcome


class HerePool:
    """Works on tasks in this process, one by one, and without limits of time and memory."""

    def __init__(self, workers, limits) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception) -> None:
        pass

    def run(self, function, tasks):
        for task in tasks:
            try:
                yield Outcome(task, function(task))
            except DocumentError as error:
                yield Outcome(task, error=error)


def ingest_here(source: Path, store: Path, *, dpi: int = 20, **options) -> IngestReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingestion, "WorkerPool", HerePool)
        return ingestion.ingest(source, store, **{"settings": RenderSettings(dpi=dpi), **options})
