"""Start and stop the warm process."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
WARM = "WARM_PYTHON"
COLD = "COLD_PYTHON"
"""Environment variables with the paths of the warm interpreter for tests and the original one."""
_ALONE = {"OMP_NUM_THREADS": "1", "TORCH_COMPILE_DISABLE": "1"}
"""Environment variables that libraries read when they are imported, with the values of
`+profile=cpu`.
"""
TRAINER_IMPORTS = "tools.warm.trainer_imports"
"""The module that imports all modules which the processes of a training run import."""


class WarmPython:
    """A context in which `executable` is a Python that has `modules` already imported.

    Args:
        modules: the modules to import once, in order.
        env: environment variables for the imports, in addition to this process's. Programs get the
            environment with which they are started.
        lazy: import when the first program starts. Otherwise import at once; the context is entered
            when the imports are done.

    Raises:
        RuntimeError: the imports fail; if they are lazy, programs fail instead.
    """

    def __init__(
        self,
        modules: Sequence[str] = (TRAINER_IMPORTS,),
        env: dict[str, str] | None = None,
        *,
        lazy: bool = False,
    ):
        self._folder = Path(tempfile.mkdtemp(prefix="warm-"))
        self._modules = tuple(modules)
        self._env = {**_ALONE, **(env or {})}
        self._when = "lazy" if lazy else "eager"

    @property
    def executable(self) -> Path:
        """The executable, which takes the arguments of `python` (a script, `-m` or `-c`)."""
        return self._folder / "python"

    def __enter__(self) -> WarmPython:
        client = (HERE / "client.py").read_text(encoding="utf-8")
        self.executable.write_text(f"#!{sys.executable} -SEs\n{client}", encoding="utf-8")
        _make_executable(self.executable)
        # chains of stages start this command, which PATH finds beside their interpreter
        command = self._folder / "docagent-rl"
        installed = Path(sysconfig.get_path("scripts")) / command.name
        command.write_text(f'#!/bin/sh\nexec {self.executable} {installed} "$@"\n', "utf-8")
        _make_executable(command)
        self._server = subprocess.Popen(
            [
                sys.executable,
                str(HERE / "server.py"),
                str(self._folder),
                self._when,
                *self._modules,
            ],
            env={**os.environ, **self._env},
            stdout=subprocess.PIPE,
            text=True,
        )
        lines = []
        for line in self._server.stdout or ():
            lines.append(line)
            if line == "ready\n":
                return self
        self._remove()
        raise RuntimeError(f"the warm Python process cannot start: {''.join(lines)[-2000:]}")

    def __exit__(self, *_: object) -> None:
        self._server.terminate()
        self._remove()

    def _remove(self) -> None:
        self._server.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


def _make_executable(file: Path) -> None:
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
