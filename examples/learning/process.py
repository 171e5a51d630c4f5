"""Run trainers as child processes, log them, and end them with everything that they started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from docagent_rl.base.errors import InfrastructureError

POLL_S = 0.5
GRACE_S = 20.0
"""Seconds that a trainer has to exit after SIGTERM before it is killed."""

SFT_MODULE = (
    "torch.distributed.run",
    "--standalone",
    "--nproc-per-node",
    "1",
    "-m",
    "verl.trainer.sft_trainer",
)
PPO_MODULE = ("verl.trainer.main_ppo",)


@dataclass(frozen=True, slots=True)
class Trainer:
    """The command of a trainer.

    Args:
        module: the module that `python -m` runs, with options of its own before it.
        arguments: Hydra overrides and options of the module.
        folder: the working directory, which also gets the output as `log.txt`.
        python: the interpreter; by default this one.
    """

    module: Sequence[str]
    arguments: Sequence[str]
    folder: Path
    python: Path | None = None

    @property
    def command(self) -> list[str]:
        """The command line."""
        return [str(self.python or sys.executable), "-m", *self.module, *self.arguments]

    @property
    def log(self) -> Path:
        """The file with the trainer's output."""
        return self.folder / "log.txt"

    def run(
        self,
        on_wait: Callable[[], None] = lambda: None,
        environment: Mapping[str, str] | None = None,
    ) -> float:
        """Run the trainer to its end.

        Args:
            on_wait: called twice a second, e.g. to move a progress bar; an exception ends the
                trainer.
            environment: environment variables in addition to those of this process.

        Returns:
            wall-clock seconds.

        Raises:
            InfrastructureError: the trainer failed; the message names its log.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with self.log.open("w", encoding="utf-8") as log:
            process = subprocess.Popen(
                self.command,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **_THREADS, **_python_path(), **(environment or {})},
                start_new_session=True,
            )
            try:
                while (status := _poll(process)) is None:
                    on_wait()
            finally:
                _end(process)
        if status:
            raise InfrastructureError(
                f"{self.module[-1]} ended with status {status}: see {self.log}"
            )
        return time.monotonic() - began


_THREADS = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}


def _python_path() -> dict[str, str]:
    """Return a PYTHONPATH with the examples, whose estimators the trainer's processes import."""
    folders = [str(Path(__file__).parents[1])]
    if before := os.environ.get("PYTHONPATH"):
        folders.append(before)
    return {"PYTHONPATH": os.pathsep.join(folders)}


def _poll(process: subprocess.Popen) -> int | None:
    try:
        return process.wait(POLL_S)
    except subprocess.TimeoutExpired:
        return None


def _end(process: subprocess.Popen) -> None:
    """End the trainer and whatever is left of its process group."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
