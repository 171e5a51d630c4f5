"""Try a mutant: a fork that begins with the libraries loaded, imports the changed module and runs tests."""

from __future__ import annotations

import contextlib
import importlib
import importlib.machinery
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import pytest

OURS = ("docagent_rl", "hydra_plugins", "tests", "verl")
OPTIONS = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", "-m", "not e2e and not slow")


class Outcome(StrEnum):
    """What became of a mutant."""

    KILLED = "killed"
    TIMED_OUT = "timed out"
    SURVIVED = "survived"
    UNKNOWN = "not run"
    """The tests could not be run at all."""


def load_libraries(tests: Sequence[str]) -> None:
    """Load in this process what the tests load of others, so that forks begin with it.

    Raises:
        SystemExit: the tests fail without a mutant.
    """
    read, write = os.pipe()

    def run() -> int:
        status = int(pytest.main([*OPTIONS, *tests]))
        names = [name for name in sys.modules if name.partition(".")[0] not in OURS]
        with os.fdopen(write, "w") as out:
            out.write("\n".join(names))
        return status

    child = _fork(run, quiet=False)
    os.close(write)
    with os.fdopen(read) as result:
        names = result.read().splitlines()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit(f"{' '.join(tests)}: the tests fail without a mutant")
    for name in names:
        with contextlib.suppress(Exception):  # some can be imported from within their package only
            importlib.import_module(name)


def start(path: Path, source: str, tests: Sequence[str]) -> int:
    """Begin the trial of a changed module; return the process id of its fork."""

    def run() -> int:
        _replace(path.resolve(), source)
        return int(pytest.main([*OPTIONS, *tests]))

    return _fork(run)


def finish(child: int, deadline: float) -> Outcome:
    """Wait for a trial.

    Args:
        child: the fork.
        deadline: of `time.monotonic()`; then it is ended with all it started.
    """
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            # a module that cannot be imported ends pytest with 4 where a conftest imports it
            return {0: Outcome.SURVIVED, 5: Outcome.UNKNOWN}.get(code, Outcome.KILLED)
        if time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return Outcome.TIMED_OUT
        time.sleep(0.02)


def _fork(run: Callable[[], int], *, quiet: bool = True) -> int:
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        os.environ["HYPOTHESIS_PROFILE"] = "first"
        if quiet:
            nowhere = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(nowhere, stream)
        status = run()
    finally:
        os._exit(status)
    return 0


def _replace(path: Path, source: str) -> None:
    """Let the module of a file be loaded from another text."""
    read = importlib.machinery.SourceFileLoader.get_code

    def get_code(self: importlib.machinery.SourceFileLoader, fullname: str):
        if Path(self.path).resolve() == path:
            return compile(source, self.path, "exec", dont_inherit=True)
        return read(self, fullname)

    importlib.machinery.SourceFileLoader.get_code = get_code  # ty: ignore[invalid-assignment]
