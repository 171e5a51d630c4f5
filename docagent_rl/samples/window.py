"""Windows: the part of its document that a question is about (`Sample.extra["window"]`)."""

from collections.abc import Mapping
from typing import Any


def window_of(extra: Mapping[str, Any]) -> range | None:
    """Return the pages of a question's window, given as its first and its last page.

    `None` means that there is no window, so that the whole document is in play, or that it is
    malformed; such a question cannot be played (`envs.checks.played_pages`).
    """
    match extra.get("window"):
        case [first, last] if type(first) is type(last) is int and 1 <= first <= last:
            return range(first, last + 1)
    return None


def played_length(extra: Mapping[str, Any]) -> int | None:
    """Return the number of pages in play: those of the window, otherwise those of the document
    (`num_pages`); `None` if it is unknown.
    """
    window = window_of(extra)
    if window is not None:
        return len(window)
    pages = extra.get("num_pages")
    return pages if type(pages) is int and pages > 0 else None
