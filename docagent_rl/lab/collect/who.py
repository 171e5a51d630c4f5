"""Who plays in a collection."""

from __future__ import annotations

from enum import StrEnum


class Who(StrEnum):
    """Who plays."""

    ENDPOINT = "endpoint"
    """A teacher behind an OpenAI-compatible endpoint."""
    ORACLE = "oracle"
    """A script that knows the references."""
    DETOURS = "detours"
    """The same, which goes astray at times."""
    REPLAY = "replay"
    """Sessions of another run, said again."""
