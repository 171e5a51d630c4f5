"""Time functions side by side, and print the results with the machine they were measured on."""

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
    """Return the number of cores, the GPU, the version of torch and its threads, as text."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    threads = torch.get_num_threads()
    return (
        f"{cores} cores, {gpu}, torch {torch.__version__} on {threads} thread{'s' * (threads > 1)}"
    )


def best_times(
    calls: Mapping[str, Callable[[], Result]], repeats: int, cpu: bool = False
) -> tuple[dict[str, float], dict[str, Result]]:
    """Time functions in rounds; each round calls every function once.

    A moment in which the machine is busy therefore affects all functions alike.

    Args:
        calls: functions by name.
        repeats: number of rounds; the first one also warms up.
        cpu: measure this process's processor time, not wall-clock time, so that other processes
            matter less. Threads that wait for each other by spinning count, too.

    Returns:
        the shortest time of each function in seconds, and its last result.
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


CPU_TIME = "Measure processor time on one thread, for machines that are busy with other work."


def single_thread(cpu: bool) -> None:
    """Restrict torch to one thread if `cpu`: processor time includes the waiting of threads."""
    if cpu:
        torch.set_num_threads(1)


def show(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print the machine and a table; all columns but the first are right-aligned."""
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
    """Return meaningless text of `words` words."""
    return " ".join(rng.choices(WORDS, k=words))
