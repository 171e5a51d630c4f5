"""Documents being stored, and the page ranges that are still missing of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents.chunks import (
    PAGES_PER_CHUNK,
    IngestPlan,
    PageRangeTask,
    ProbedDocument,
    reusable_pages,
)
from docagent_rl.documents.manifest import ChunkEntry, Manifest, RecordT, read_record
from docagent_rl.documents.settings import OcrMode
from docagent_rl.documents.sources import SourceDocument


@dataclass(slots=True)
class Job:
    """A document being stored."""

    tasks: list[PageRangeTask]
    """Its ranges of pages."""
    missing: dict[int, PageRangeTask]
    """Ranges that are not stored yet, by their first pages."""
    damaged: bool
    """The store has this version of the document, with damaged or missing pages."""
    resumed_pages: int
    """Number of pages that an interrupted run had stored."""
    failed: bool = False

    @property
    def probed(self) -> ProbedDocument:
        """The probed document."""
        return self.tasks[0].probed

    @property
    def source(self) -> SourceDocument:
        """The file or folder."""
        return self.probed.source


def make_job(
    plan: IngestPlan, probed: ProbedDocument, old: Manifest | None = None, *, damaged: bool = False
) -> Job:
    """Return the job of storing a document, without the ranges that an interrupted run has stored.

    Pictures that OCR has read for its `old` version with the same settings are not read again.
    """
    folder = plan.folder(probed)
    known = ()
    if old and old.settings == plan.key(probed) and plan.ocr is not OcrMode.NEVER:
        known = reusable_pages(old.pages)
    starts = range(1, probed.num_pages + 1, PAGES_PER_CHUNK)
    tasks = [PageRangeTask(probed, plan, folder, first, known) for first in starts]
    missing = {task.first: task for task in tasks if not _is_stored(task)}
    resumed = probed.num_pages - sum(task.num_pages for task in missing.values())
    return Job(tasks, missing, damaged, resumed)


def _is_stored(task: PageRangeTask) -> bool:
    record = valid_record(ChunkEntry, task.record)
    pages = record.pages if record else ()
    names = [each for page in pages for each in page.objects()]
    return len(pages) == task.num_pages and task.plan.layout.objects.are_whole(names)


def valid_record(kind: type[RecordT], path: Path) -> RecordT | None:
    """Read a record; return None if it is missing or damaged, and so has to be made again."""
    try:
        return read_record(kind, path)
    except (FileNotFoundError, UserError):
        return None
