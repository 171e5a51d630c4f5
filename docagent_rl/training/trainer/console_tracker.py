"""A tracker of verl's kind that hands the numbers of steps to the console of the run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, SupportsFloat

from docagent_rl.console.channel import Report, ReportSender
from docagent_rl.console.run_console import run_console

TRACKER = "docagent"
"""Name of the tracker among those of verl's `Tracking`."""

_sender: ReportSender | None = None


def report_sender() -> ReportSender:
    """Return the way of this process, the trainer of a run, to the run's console."""
    global _sender
    if _sender is None:
        _sender = ReportSender()
    return _sender


class ConsoleTracker:
    """A tracker that makes a report of all numbers.

    Args:
        show: takes the report.
    """

    def __init__(self, show: Callable[[Report], object]) -> None:
        self._show = show

    def log(self, data: Mapping[str, Any], step: int) -> None:
        """Report the numbers of a step or a validation, as verl's trackers take them."""
        numbers = {
            name: float(value) for name, value in data.items() if isinstance(value, SupportsFloat)
        }
        self._show({"kind": "numbers", "step": step, "numbers": numbers})


def console_tracker() -> ConsoleTracker | None:
    """Return the tracker of this process; None where no console shows what it trains."""
    console = run_console()  # fine-tuning trains in its driver
    if console is not None:
        console.end_stage()
        console.look("steps")
        return ConsoleTracker(console.handle)
    sender = report_sender()
    return ConsoleTracker(sender.send) if sender.listened_to else None
