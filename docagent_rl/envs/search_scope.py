"""Where a search looks."""

from __future__ import annotations

from enum import StrEnum


class SearchScope(StrEnum):
    """What a search looks through."""

    CORPUS = "corpus"
    """All pages of the store."""
    DOCUMENT = "document"
    """The question's own document."""
