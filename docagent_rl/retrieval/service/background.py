"""An event loop for threads that wait for services."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_background: list[asyncio.AbstractEventLoop] = []
_lock = threading.Lock()


def in_background(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns, on an event loop that the threads of this process share."""
    with _lock:
        if not _background:
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="docagent-background", daemon=True).start()
            _background.append(loop)
    return asyncio.run_coroutine_threadsafe(work, _background[0]).result()
