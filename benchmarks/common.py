"""Timing of functions side by side, and the machine it was done on."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from rich.console import Console
from rich.table import Table

Result = TypeVar("Result")


def machine() -> str:
    """Name what the numbers depend on most."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    threads = torch.get_num_threads()
    return (
        f"{cores} cores, {gpu}, torch {torch.__version__} on {threads} thread{'s' * (threads > 1)}"
    )


def best_times(
    calls: Mapping[str, Callable[[], Result]], repeats: int, cpu: bool = False
) -> tuple[dict[str, float], dict[str, Result]]:
    """Run all calls in turn, `repeats` times over, so that a busy moment hits all of them alike.

    Args:
        calls: functions by name.
        repeats: rounds; the first one also warms up.
        cpu: count the time of the processors that this process had, not the time that went by: what
            other processes do then matters less. Threads that wait for each other count too.

    Returns:
        the shortest time of each in seconds, and its last result.
    """
    clock = time.process_time if cpu else time.perf_counter
    seconds = dict.fromkeys(calls, float("inf"))
    results: dict[str, Result] = {}
    for _ in range(repeats):
        for name, call in calls.items():
            results.pop(name, None)
            start = clock()
            results[name] = call()
            seconds[name] = min(seconds[name], clock() - start)
    return seconds, results


CPU_TIME = "Count processor time on one thread, for machines that are busy with something else."


def single_thread(cpu: bool) -> None:
    """Processor time is that of the work alone only on one thread."""
    if cpu:
        torch.set_num_threads(1)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the machine and a table, numbers right-aligned."""
    table = Table(title=title, title_justify="left")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right")
    for row in rows:
        table.add_row(*row)
    console = Console()
    console.print(machine(), highlight=False)
    console.print(table)


WORDS = [
    "revenue",
    "of",
    "page",
    "table",
    "shows",
    "total",
    "in",
    "year",
    "report",
    "figure",
    "and",
]


def filler(rng: random.Random, words: int) -> str:
    """Text of no meaning."""
    return " ".join(rng.choices(WORDS, k=words))
