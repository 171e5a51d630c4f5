"""Verdicts of a judge, kept on disk."""

from __future__ import annotations

import os

from docagent_rl.endpoints.json_cache import JsonCache


class VerdictCache:
    """True or False by content key. Any number of threads and processes may share the folder.

    All methods block: call them off the event loop.

    Args:
        folder: where the cache lives; made when missing.

    Raises:
        UserError: the folder cannot be used.
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self._cache = JsonCache(folder, "judge cache")

    def get(self, key: str) -> bool | None:
        """The verdict under `key`, or `None`."""
        verdict = self._cache.get(key)
        return verdict if isinstance(verdict, bool) else None

    def put(self, key: str, verdict: bool) -> None:
        """Keep a verdict."""
        self._cache.put(key, verdict)

    def close(self) -> None:
        """Close the calling thread's connection."""
        self._cache.close()
