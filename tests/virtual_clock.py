"""An event loop that never waits: when all tasks sleep, its clock jumps to the next that wakes."""

import asyncio
from collections.abc import Coroutine
from typing import Any


class VirtualClock(asyncio.SelectorEventLoop):
    """A clock that starts at 0 s. Only for code that waits through the loop: sockets and threads
    take no time here.
    """

    _now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:
            self._now = max(self._now, self._scheduled[0]._when)
        super()._run_once()


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine as `asyncio.run` does, on a virtual clock."""
    with asyncio.Runner(loop_factory=VirtualClock) as runner:
        return runner.run(work)


def now() -> float:
    """Return the seconds since the running loop was made."""
    return asyncio.get_running_loop().time()
