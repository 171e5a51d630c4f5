"""The first line of a training run, which comes before verl, torch and Ray have been imported.

Their import takes from five seconds to a minute, and only then does Hydra read the configuration.
`docagent_rl_first_line.pth`, which is installed beside this package, calls `print_first_line` when
Python starts as `python -m verl.trainer.…`; where that file is missing, `docagent_rl.console`
prints the line later.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from docagent_rl import __version__

TRAINERS = ("main_ppo", "sft_trainer")
"""Modules of `verl.trainer` that train."""
_PACKAGE = "verl.trainer."
_NAMES = ("--config-name", "-cn")
_ASKS = frozenset({"--help", "-h", "--hydra-help", "--cfg", "-c", "--info", "-i", "--resolve"})
"""Arguments with which Hydra prints something and runs nothing."""
_FULL = "docagent.console=full"

_printed_at: float | None = None
_held_warnings: list[str] = []
_restore: list[Callable[[], None]] = []


def print_first_line(arguments: Sequence[str]) -> None:
    """Print one line if the arguments of a Python process start a trainer of verl with a recipe.

    Args:
        arguments: `sys.orig_argv`, the interpreter first.
    """
    global _printed_at
    recipe = recipe_of(arguments)
    if recipe is None or _printed_at is not None:
        return
    _hold_warnings()
    if os.environ.get("RANK", "0") != "0":
        return
    _printed_at = time.monotonic()
    print(
        f"docagent-rl {__version__}: {recipe}; importing verl, torch and Ray",
        flush=True,
    )


def recipe_of(arguments: Sequence[str]) -> str | None:
    """Return the recipe that a Python process trains with; `None` if it does something else, or
    prints everything.
    """
    modules = {f"{_PACKAGE}{name}" for name in TRAINERS}
    place = next((n for n, word in enumerate(arguments) if word in modules), None)
    if place is None or arguments[place - 1] != "-m":
        return None
    options = arguments[place + 1 :]
    if _FULL in options or not _ASKS.isdisjoint(options):
        return None
    for word, following in zip(options, [*options[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name in _NAMES:
            return value if equals else following
    return None


def printed_at() -> float | None:
    """Return the `time.monotonic` of the line; `None` if this process did not print it."""
    return _printed_at


def _hold_warnings() -> None:
    """Keep the warnings of imports, which belong in the log, until the log exists."""
    original = warnings.showwarning

    def hold(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        del file  # Python's own parameter: nobody prints these to a file
        _held_warnings.append(warnings.formatwarning(message, category, filename, lineno, line))

    def restore() -> None:
        if warnings.showwarning is hold:
            warnings.showwarning = original

    # a hook that the documentation of `warnings` lets programs replace
    warnings.showwarning = hold  # ty: ignore[invalid-assignment]
    _restore.append(restore)
    atexit.register(release_warnings)  # for a run that ends before it has a log


def release_warnings() -> None:
    """Print the kept warnings on standard error; print later ones as Python does."""
    while _restore:
        _restore.pop()()
    print("".join(_held_warnings), end="", file=sys.stderr, flush=True)
    _held_warnings.clear()


def trains() -> bool:
    """Return whether this process runs one of verl's trainers as its main module."""
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    return file is not None and Path(file).stem in TRAINERS
