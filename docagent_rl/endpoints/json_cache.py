"""JSON values by content key, kept on disk."""

from __future__ import annotations

import os
import sqlite3
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import diskcache
from diskcache.core import MODE_PICKLE

from docagent_rl.errors import InfrastructureError, UserError


class _JsonOnlyDisk(diskcache.JSONDisk):
    """JSON values; a row that asks to be unpickled was not written by us."""

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        if mode == MODE_PICKLE:
            raise UserError(f"the cache {self._directory} holds pickled data: delete the folder")
        return super().fetch(mode, filename, value, read)


class JsonCache:
    """Values by key. Any number of threads and processes may share the folder.

    All methods block: call them off the event loop. They raise `InfrastructureError` when the disk fails or
    what lies there is damaged.

    Args:
        folder: where the cache lives; made when missing.
        what: name of the cache for messages.
        forever: nothing is ever dropped, for values that were paid for; else the oldest go beyond 1 GiB.

    Raises:
        UserError: the folder cannot be used.
    """

    def __init__(self, folder: str | os.PathLike, what: str, *, forever: bool = False) -> None:
        try:
            self._cache = diskcache.Cache(os.fspath(folder), disk=_JsonOnlyDisk)
            if forever:
                self._cache.reset("eviction_policy", "none")
        except (OSError, sqlite3.DatabaseError) as error:
            raise UserError(f"the {what} {os.fspath(folder)} cannot be opened: {error}") from error
        self._what = f"the {what} {os.fspath(folder)}"

    def get(self, key: str) -> Any:
        """The value under `key`, or `None`."""
        with self._working():
            return self._cache.get(key, retry=True)

    def put(self, key: str, value: Any) -> None:
        """Keep a value."""
        with self._working():
            self._cache.set(key, value, retry=True)

    def put_first(self, key: str, value: Any) -> Any:
        """Keep a value unless there is one; returns the one that is kept, the same for all who ask."""
        with self._working():
            self._cache.add(key, value, retry=True)
        kept = self.get(key)
        # evicted in between: ours is as good as any
        return value if kept is None else kept

    def close(self) -> None:
        """Close the calling thread's connection."""
        self._cache.close()

    @contextmanager
    def _working(self) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, zlib.error, ValueError, RecursionError) as error:
            raise InfrastructureError(
                f"{self._what} cannot be used: {type(error).__name__}: {error}; delete the folder"
            ) from error
