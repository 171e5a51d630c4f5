"""Try a mutant in a fork that imports the changed module and runs tests.

The forked process has the libraries loaded already.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import pytest

OURS = ("bias_card", "docagent_rl", "hydra_plugins", "tests", "verl")
OPTIONS = (
    "-x",
    "-q",
    "--no-header",
    "--capture=sys",
    "-p",
    "no:cacheprovider",
    "-m",
    "not e2e and not slow",
)


class Outcome(StrEnum):
    """The outcome of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    UNKNOWN = "not run"
    """No test runs the changed lines."""


@dataclass(frozen=True, slots=True)
class Chooser:
    """A pytest plugin that runs only the named tests, in that order."""

    names: Sequence[str]

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Select and sort the tests."""
        place = {name: n for n, name in enumerate(self.names)}
        items[:] = sorted(
            (item for item in items if item.nodeid in place), key=lambda i: place[i.nodeid]
        )


def load(libraries: Sequence[str]) -> None:
    """Import the libraries that tests use, so that forks have them loaded."""
    for name in libraries:
        with contextlib.suppress(Exception):  # some can only be imported from within their package
            importlib.import_module(name)


def start(path: Path, source: str, tests: Sequence[str]) -> int:
    """Start the trial of a changed module; return the process id of its fork.

    Args:
        path: the module's file.
        source: the changed source.
        tests: the names of the tests to run, in order.
    """

    def run() -> int:
        replace(path, source)
        files = dict.fromkeys(name.partition("::")[0] for name in tests)
        return int(pytest.main([*OPTIONS, *files], plugins=[Chooser(tests)]))

    return fork(run)


def finish(child: int, deadline: float) -> Outcome:
    """Wait for a trial, and return its outcome.

    Args:
        child: the process id of the fork.
        deadline: the time of `time.monotonic()` at which the fork and everything that it started
            are killed.
    """
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            # pytest exits with 4 if a conftest imports a module that cannot be imported
            return {0: Outcome.SURVIVED, 5: Outcome.UNKNOWN}.get(code, Outcome.KILLED)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Outcome.TIMED_OUT
        time.sleep(0.02)


def fork(run: Callable[[], int]) -> int:
    """Run a function in a fork without output; return its process id."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):
            os.dup2(nowhere, stream)
        status = run()
    finally:
        os._exit(status)
    return 0


def replace(path: Path, source: str) -> None:
    """Make imports load the module of a file from a changed source."""
    read = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str):
        if Path(self.path).resolve() == path.resolve():
            return compile(source, self.path, "exec", dont_inherit=True)
        return read(self, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # ty: ignore[invalid-assignment]
