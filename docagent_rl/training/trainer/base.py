"""The ground of the trainer's mixins, and work in the background."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from docagent_rl.config import DocAgentConfig

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as VerlTrainer
else:
    VerlTrainer = object


class Background:
    """A thread that does one thing after the other, such as writing a step's files."""

    def __init__(self) -> None:
        # its thread is waited for when the interpreter ends
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="docagent-files")
        self._last: Future[object] | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Wait for the work before, then start this.

        Raises:
            Exception: the work before has failed, with its own error.
        """
        self.settle()
        self._last = self._threads.submit(work)

    def settle(self) -> None:
        """Wait for the work that was started.

        Raises:
            Exception: it has failed, with its own error; raised once.
        """
        last = self._last
        self._last = None
        if last is not None:
            last.result()


class TrainerPart(VerlTrainer):
    """A part of `DocAgentTrainerMixin`; to a type checker it extends verl's trainer."""

    docagent: DocAgentConfig

    @property
    def run_dir(self) -> Path:
        """Folder of the run's trajectories."""
        return self.docagent.run_dir

    @cached_property
    def _files(self) -> Background:
        """The writer of what a step leaves behind; code that relies on it waits for it."""
        return Background()
