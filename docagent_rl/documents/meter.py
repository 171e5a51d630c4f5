"""Progress of an ingest."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class Meter:
    """Two bars on standard error: files looked at, pages stored. Silent when not `visible`."""

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
        self._pages = self._progress.add_task("Storing pages", total=0, visible=False)

    def __enter__(self) -> Meter:
        self._progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._progress.stop()

    def expect_files(self, count: int) -> None:
        """Set the number of files to look at."""
        self._progress.update(self._files, total=count)

    def expect_pages(self, count: int) -> None:
        """Set the number of pages to store."""
        self._progress.update(self._pages, total=count, visible=True)

    def file_done(self) -> None:
        """One more file was looked at."""
        self._progress.advance(self._files)

    def pages_done(self, count: int) -> None:
        """`count` more pages are stored, or given up."""
        self._progress.advance(self._pages, count)
