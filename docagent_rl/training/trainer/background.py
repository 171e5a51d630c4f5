"""One thing at a time that is done while the trainer goes on, such as writing the files of a step."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor


class Background:
    """Does what it is given in a thread, in order; what went wrong is raised where it is waited for."""

    def __init__(self) -> None:
        # its thread is waited for when the interpreter ends
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="docagent-files")
        self._last: Future[object] | None = None

    def start(self, work: Callable[[], object]) -> None:
        """Wait for what was started before, then start this.

        Raises:
            Exception: what was started before has failed, with its own error.
        """
        self.settle()
        self._last = self._threads.submit(work)

    def settle(self) -> None:
        """Wait for what was started.

        Raises:
            Exception: it has failed, with its own error; raised once.
        """
        last, self._last = self._last, None
        if last is not None:
            last.result()
