"""Tagged pieces of a reply, found in linear time."""

from __future__ import annotations


def first_tag(text: str, name: str) -> str | None:
    """What stands between the first `<name>` and the next `</name>`; `None` without such a pair."""
    _, opened, rest = text.partition(f"<{name}>")
    inside, closed, _ = rest.partition(f"</{name}>")
    return inside if opened and closed else None


def last_tag(text: str, name: str) -> str | None:
    """What stands between the last `</name>` and the last `<name>` before it; `None` without such a pair."""
    before, closed, _ = text.rpartition(f"</{name}>")
    _, opened, inside = before.rpartition(f"<{name}>")
    return inside if opened and closed else None
