"""Documents that cannot be ingested."""

from __future__ import annotations

from dataclasses import dataclass

from docagent_rl.base.errors import UserError


class DocumentError(UserError):
    """One document cannot be read; the message is the reason, without the file's name."""


@dataclass(frozen=True, slots=True)
class FailedDocument:
    """A source that was left out."""

    name: str
    """The file or folder, relative to the ingested folder."""
    reason: str
