"""How long an event loop lets others wait."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field

_BEAT_S = 0.01


@dataclass
class Pulse:
    """A task that wakes every 10 ms; a thread looks at what the event loop does when it is late.

    Args:
        late_s: a beat that is later than this is looked into.

    Attributes:
        worst_cpu_s: the longest that the event loop's thread itself worked between two beats, in seconds of
            its CPU: a busy machine does not change it.
        found: where the event loop was when it was late.
    """

    late_s: float = 0.25
    worst_cpu_s: float = 0.0
    found: Counter[str] = field(default_factory=Counter)

    async def __aenter__(self) -> Pulse:
        self._beat = time.monotonic()
        self._loop, self._loop_thread = asyncio.get_running_loop(), threading.get_ident()
        self._over = threading.Event()
        self._watch = threading.Thread(target=self._look, daemon=True)
        self._watch.start()
        self._task = asyncio.create_task(self._run())
        await asyncio.sleep(2 * _BEAT_S)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.sleep(2 * _BEAT_S)  # a last beat, behind whatever came just now
        self._task.cancel()
        self._over.set()
        self._watch.join()

    def answers(self, patience_s: float) -> bool:
        """Whether the event loop does something else while this is called, however late it is."""
        answered = threading.Event()
        self._loop.call_soon_threadsafe(answered.set)
        return answered.wait(patience_s)

    async def _run(self) -> None:
        worked = time.thread_time()
        while True:
            await asyncio.sleep(_BEAT_S)
            cpu = time.thread_time()
            self.worst_cpu_s = max(self.worst_cpu_s, cpu - worked)
            self._beat, worked = time.monotonic(), cpu

    def _look(self) -> None:
        """Note the innermost line of this package."""
        while not self._over.wait(_BEAT_S * 5):
            frame = sys._current_frames().get(self._loop_thread)
            if frame is not None and time.monotonic() - self._beat > self.late_s:
                stack = traceback.extract_stack(frame)
                ours = next((each for each in reversed(stack) if "docagent_rl/" in each.filename), stack[-1])
                self.found[f"{ours.filename}:{ours.lineno} {ours.name}"] += 1
