"""JSON values by content key, kept on disk."""

from __future__ import annotations

import os
import sqlite3
from typing import Any

import diskcache
from diskcache.core import MODE_PICKLE

from docagent_rl.errors import UserError


class _JsonOnlyDisk(diskcache.JSONDisk):
    """JSON values; a row that asks to be unpickled was not written by us."""

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        if mode == MODE_PICKLE:
            raise UserError(f"the cache {self._directory} holds pickled data: delete the folder")
        return super().fetch(mode, filename, value, read)


class JsonCache:
    """Values by key. Any number of threads and processes may share the folder.

    All methods block: call them off the event loop.

    Args:
        folder: where the cache lives; made when missing.
        what: name of the cache for messages.

    Raises:
        UserError: the folder cannot be used.
    """

    def __init__(self, folder: str | os.PathLike, what: str) -> None:
        try:
            self._cache = diskcache.Cache(os.fspath(folder), disk=_JsonOnlyDisk)
        except (OSError, sqlite3.DatabaseError) as error:
            raise UserError(f"the {what} {os.fspath(folder)} cannot be opened: {error}") from error

    def get(self, key: str) -> Any:
        """The value under `key`, or `None`."""
        return self._cache.get(key, retry=True)

    def put(self, key: str, value: Any) -> None:
        """Keep a value."""
        self._cache.set(key, value, retry=True)

    def put_first(self, key: str, value: Any) -> Any:
        """Keep a value unless there is one; returns the one that is kept, the same for all who ask."""
        self._cache.add(key, value, retry=True)
        kept = self.get(key)
        # evicted in between: ours is as good as any
        return value if kept is None else kept

    def close(self) -> None:
        """Close the calling thread's connection."""
        self._cache.close()
