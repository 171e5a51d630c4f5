"""JSON values by key on disk."""

from __future__ import annotations

import os
import sqlite3
import threading
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import diskcache
from diskcache.core import MODE_PICKLE

from docagent_rl.base.errors import InfrastructureError, UserError


class _JsonOnlyDisk(diskcache.JSONDisk):
    """JSON values; a row that asks to be unpickled was not written by us."""

    def fetch(self, mode: int, filename: str | None, value: Any, read: bool) -> Any:
        if mode == MODE_PICKLE:
            raise UserError(f"the cache {self._directory} holds pickled data: delete the folder")
        return super().fetch(mode, filename, value, read)


class JsonCache:
    """JSON values that stay until their folder is deleted. Threads and processes may share the folder.

    All methods block: call them off the event loop. They raise `InfrastructureError` when the disk fails or
    the data there are damaged. A missing folder is made with the first value: a command that ends before
    anything was paid for leaves nothing behind.

    Raises:
        UserError: the folder cannot be used.
    """

    def __init__(self, folder: Path, what: str) -> None:
        self._folder = folder
        self._what = f"the {what} {folder}"
        self._opening = threading.Lock()
        self._opened: diskcache.Cache | None = None
        if folder.exists():
            self._open()
            return
        place = next(each for each in folder.absolute().parents if each.exists())
        if not (place.is_dir() and os.access(place, os.W_OK | os.X_OK)):
            raise UserError(f"{self._what} cannot be opened: {place} is no folder that can be written")

    def get(self, key: str) -> Any:
        """Return the value under `key`, or `None`."""
        if self._opened is None and not self._folder.exists():
            return None
        with self._working():
            return self._open().get(key, retry=True)

    def put(self, key: str, value: Any) -> Any:
        """Keep a value unless there is one, and return the one that is kept, the same for all processes."""
        with self._working():
            self._open().add(key, value, retry=True)
        return self.get(key)

    def _open(self) -> diskcache.Cache:
        with self._opening:
            if self._opened is None:
                try:
                    self._opened = diskcache.Cache(
                        os.fspath(self._folder), disk=_JsonOnlyDisk, eviction_policy="none"
                    )
                except (OSError, sqlite3.DatabaseError) as error:
                    raise UserError(f"{self._what} cannot be opened: {error}") from error
            return self._opened

    @contextmanager
    def _working(self) -> Generator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, zlib.error, ValueError, RecursionError) as error:
            raise InfrastructureError(
                f"{self._what} cannot be used: {type(error).__name__}: {error}; delete the folder"
            ) from error
