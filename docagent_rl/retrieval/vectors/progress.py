"""A bar of pages and pages a second."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class PageProgress:
    """Shown on standard error while the block lasts.

    Args:
        total: pages.
        shown: False: count only.
    """

    def __init__(self, total: int, *, shown: bool) -> None:
        self._bar = Progress(
            TextColumn("Encoding pages"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=not shown,
        )
        self._task = self._bar.add_task("pages", total=total, speed="")

    def __enter__(self) -> PageProgress:
        self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def skip(self, pages: int) -> None:
        """Count pages that need no encoding: they are no measure of the speed."""
        self._bar.reset(self._task, total=(self._bar.tasks[0].total or 0) - pages, speed="")

    def done(self, pages: int) -> None:
        """Count encoded pages."""
        task = self._bar.tasks[0]
        speed = f"{task.speed:.1f} pages/s" if task.speed else ""
        self._bar.update(self._task, advance=pages, speed=speed)
