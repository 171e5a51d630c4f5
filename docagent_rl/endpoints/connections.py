"""Limits on a server's connections: their number, and the time that clients may take.

uvicorn itself waits without limit for the rest of a request's head and for a client that does not
read its response, and accepts connections until the process runs out of file descriptors.
"""

import asyncio
import functools
import os
import resource
from contextlib import suppress
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_S = 20.0
"""Seconds within which the head of a request must arrive, including a connection's first one."""
READ_S = 60.0
"""Seconds within which a response must be read."""
_MOST = 1024
_FEWEST = 8
_FILES = 1 << 16
"""Limit of open files to request, as far as the system's hard limit allows."""


class BoundedProtocol(H11Protocol):
    """A connection that is closed if its client takes too long, or if another one needs its place.

    Beyond `most_connections`, a new connection replaces one whose client has yet to send a head:
    among those that never sent one, or else among those idle between requests, the one that has
    waited longest. If all connections are busy, the new one is closed.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._head: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self.place = (False, self.loop.time())
        """The receipt of a complete head, and the time since when the next one is awaited."""

    @property
    def is_waited_for(self) -> bool:
        """True if the client has yet to send a head."""
        return self.conn.their_state is h11.IDLE and not self.transport.is_closing()

    def connection_made(self, transport: asyncio.Transport) -> None:
        """See `asyncio.Protocol`."""
        super().connection_made(transport)
        self._wait_for_head()
        if len(self.connections) > most_connections():
            others = (each for each in self.connections if isinstance(each, BoundedProtocol))
            waiting = [each for each in others if each is not self and each.is_waited_for]
            loser = min(waiting, key=lambda each: each.place, default=self)
            loser.transport.abort()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        super().data_received(data)
        if self.conn.their_state is h11.IDLE:
            self._wait_for_head()
        else:
            self._head = _cancelled(self._head)

    def on_response_complete(self) -> None:
        """See `uvicorn`: the next request may arrive, or the connection ends."""
        self.place = (True, self.loop.time())
        super().on_response_complete()
        if self.transport.is_closing():
            self._wait_for_reader()

    def timeout_keep_alive_handler(self) -> None:
        """See `uvicorn`: no further request arrived."""
        super().timeout_keep_alive_handler()
        self._wait_for_reader()

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the client reads too slowly."""
        super().pause_writing()
        self._wait_for_reader()

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        super().resume_writing()
        self._unread = _cancelled(self._unread)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._head = _cancelled(self._head)
        self._unread = _cancelled(self._unread)
        super().connection_lost(exc)

    def _wait_for_head(self) -> None:
        if self._head is None:
            self._head = self.loop.call_later(HEAD_S, self.transport.abort)

    def _wait_for_reader(self) -> None:
        """Abort the connection if written data is not read in time; closing might take forever."""
        if self._unread is None and self.transport.get_write_buffer_size():
            self._unread = self.loop.call_later(READ_S, self.transport.abort)


def _cancelled(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


@functools.cache
def most_connections() -> int:
    """Return the maximum number of connections: half of the files that the process can still open.

    The limit of open files is raised as far as the system allows.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _FILES if hard == resource.RLIM_INFINITY else min(hard, _FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed == resource.RLIM_INFINITY:
        return _MOST
    is_open = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only the number matters
    return max(_FEWEST, min(_MOST, (allowed - is_open) // 2))
