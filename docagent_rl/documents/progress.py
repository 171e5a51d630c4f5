"""Progress of an ingest."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class IngestProgress:
    """Bars on standard error: files looked at, stored ones read, pages stored. Silent if not `visible`."""

    def __init__(self, *, visible: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not visible,
        )
        self._files = self._progress.add_task("Checking files", total=0)
        self._stored = self._progress.add_task("Checking stored documents", total=0, visible=False)
        self._pages = self._progress.add_task("Storing pages", total=0, visible=False)

    def __enter__(self) -> IngestProgress:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def waiting(self) -> None:
        """Say that another process has the store."""
        if not self._progress.disable:
            self._progress.console.print("Another ingest is writing to this store: waiting for it to end ...")

    def expect_files(self, count: int) -> None:
        """Set the number of files to look at."""
        self._progress.update(self._files, total=count)

    def expect_stored(self, count: int) -> None:
        """Set the number of documents to read in the store."""
        self._progress.update(self._stored, total=count, visible=count > 0)

    def stored_done(self) -> None:
        """One more document of the store was read."""
        self._progress.advance(self._stored)

    def expect_pages(self, count: int) -> None:
        """Set the number of pages to store."""
        self._progress.update(self._pages, total=count, visible=True)

    def file_done(self) -> None:
        """One more file was looked at."""
        self._progress.advance(self._files)

    def pages_done(self, count: int) -> None:
        """`count` more pages are stored, or given up."""
        self._progress.advance(self._pages, count)
