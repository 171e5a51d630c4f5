"""The base of the trainer's mixins, a background thread, and a hook in verl's replay buffer."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docagent_rl.config import DocAgentConfig

if TYPE_CHECKING:
    from verl.trainer.ppo.v1.trainer_base import PPOTrainer as VerlTrainer
else:
    VerlTrainer = object


class Background:
    """A thread that runs one task after another, such as writing a step's files."""

    def __init__(self) -> None:
        # the interpreter waits for this thread when it exits
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="docagent-files")
        self._last: Future[object] | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Wait for the previous task, then start this one.

        Raises:
            Exception: the error of the previous task, if it failed.
        """
        self.wait()
        self._last = self._threads.submit(work)

    def wait(self) -> None:
        """Wait for the task that was started.

        Raises:
            Exception: the error of the task, if it failed; raised only once.
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
        """The folder of the run."""
        return self.docagent.run_dir

    @cached_property
    def _files(self) -> Background:
        """The writer of a step's files; code that needs the files waits for it."""
        return Background()


def before_each_poll(buffer: Any, act: Callable[[], object]) -> None:
    """Make a replay buffer of verl do something whenever it polls for trajectories, before that.

    `buffer` is changed in place.
    """
    sync_metadata = buffer._sync_metadata_from_transfer_queue

    def act_and_sync() -> None:
        act()
        sync_metadata()

    buffer._sync_metadata_from_transfer_queue = act_and_sync
