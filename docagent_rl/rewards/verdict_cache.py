"""Verdicts of a judge, kept on disk."""

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
            raise UserError(f"the judge cache {self._directory} holds pickled data: delete the folder")
        return super().fetch(mode, filename, value, read)


class VerdictCache:
    """True or False by content key. Any number of threads and processes may share the folder.

    All methods block: call them off the event loop.

    Args:
        folder: where the cache lives; made when missing.

    Raises:
        UserError: the folder cannot be used.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        try:
            self._cache = diskcache.Cache(os.fspath(folder), disk=_JsonOnlyDisk)
        except (OSError, sqlite3.DatabaseError) as error:
            raise UserError(f"the judge cache {os.fspath(folder)} cannot be opened: {error}") from error

    def get(self, key: str) -> bool | None:
        """The verdict under `key`, or `None`."""
        verdict = self._cache.get(key, retry=True)
        return verdict if isinstance(verdict, bool) else None

    def put(self, key: str, verdict: bool) -> None:
        """Keep a verdict."""
        self._cache.set(key, verdict, retry=True)

    def close(self) -> None:
        """Close the calling thread's connection."""
        self._cache.close()
