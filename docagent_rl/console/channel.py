"""The channel from the trainer to the driver's console, through Ray's key-value store.

The trainer is an actor, on this machine or another node. Its printed output reaches the driver
through Ray's log monitor: late, mixed with other output, and not at all with `log_to_driver=False`.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ray.exceptions import RayError
from ray.experimental import internal_kv

logger = logging.getLogger(__name__)

Report = Mapping[str, Any]

CONSOLE_VARIABLE = "DOCAGENT_CONSOLE"
"""Environment variable of a run's processes that identifies the reports of this start; if it is not
set, no console reads them.
"""
_NAMESPACE = "docagent"
_POLL_S = 0.3
_LAST_S = 5.0


def _key(start: str, number: int) -> str:
    return f"console/{start}/{number}"


class ReportSender:
    """The trainer's end: sends reports in order, or does nothing if no console reads them."""

    def __init__(self) -> None:
        self._start = os.environ.get(CONSOLE_VARIABLE)
        self._sent = 0
        self._lock = threading.Lock()

    @property
    def listened_to(self) -> bool:
        """True if a driver shows the reports."""
        return bool(self._start)

    def send(self, report: Report) -> None:
        """Send a report; drop it if that fails, since the console must not end a run."""
        if not self._start or not internal_kv._internal_kv_initialized():
            return
        value = json.dumps(report, default=float).encode()
        with self._lock:
            try:
                key = _key(self._start, self._sent)
                internal_kv._internal_kv_put(key, value, namespace=_NAMESPACE)
                self._sent += 1
            except RayError as error:
                logger.debug("a report for the console was lost: %s", error)


class ReportReceiver:
    """The driver's end: passes every report of a start to a function, in a thread of its own."""

    def __init__(self, start: str, handle: Callable[[Report], object]) -> None:
        self._start = start
        self._handle = handle
        self._received = 0
        self._ended = threading.Event()
        # a query to a Ray that has ended never returns
        self._thread = threading.Thread(target=self._run, name="docagent-console", daemon=True)

    def begin(self) -> None:
        """Start polling; Ray may start later."""
        self._thread.start()

    def end(self) -> None:
        """Pass on the remaining reports, and stop."""
        self._ended.set()
        self._thread.join(timeout=_LAST_S)

    def _run(self) -> None:
        while not self._ended.wait(_POLL_S):
            self._take()
        self._take()

    def _take(self) -> None:
        while (value := self._next()) is not None:
            self._received += 1
            self._handle(json.loads(value))

    def _next(self) -> bytes | None:
        # RuntimeError: Ray ended between the two queries
        with suppress(RayError, RuntimeError):
            if not internal_kv._internal_kv_initialized():
                return None
            key = _key(self._start, self._received)
            value = internal_kv._internal_kv_get(key, namespace=_NAMESPACE)
            if value is not None:
                internal_kv._internal_kv_del(key, namespace=_NAMESPACE)
            return value
        return None
