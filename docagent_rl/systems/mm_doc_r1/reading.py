"""Which pages a read action of MM-Doc-R1 really reads."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from docagent_rl.systems.mm_doc_r1.actions import ReadEntry
from docagent_rl.systems.mm_doc_r1.config import ReadConfig

_NAMED = 5


@dataclass(frozen=True, slots=True)
class Resolved:
    """A read action with everything that cannot be read taken out.

    Args:
        entries: what to read; none when nothing is left.
        remarks: lines about what was dropped.
    """

    entries: tuple[ReadEntry, ...]
    remarks: tuple[str, ...]


def resolve(
    entries: Sequence[ReadEntry], known: Container[int], question: str, config: ReadConfig
) -> Resolved:
    """Fit a read action to the document and to the limits.

    In this order: unknown pages are dropped, surplus pages of an entry are dropped, entries without pages are
    dropped, a blank query becomes the question, equal entries are merged, surplus entries are dropped. All
    but the merging is remarked on.

    Args:
        entries: as parsed.
        known: pages of the document.
        question: stands in for blank queries.
        config: limits.
    """
    remarks: list[str] = []
    kept: list[ReadEntry] = []
    unknown: list[str] = []
    for entry in entries:
        unknown += [*(str(page) for page in entry.pages if page not in known), *entry.strays]
        pages = tuple(page for page in entry.pages if page in known)
        if len(pages) > config.max_pages:
            remarks.append(f"Only the first {config.max_pages} pages of an entry were read.")
            pages = pages[: config.max_pages]
        if not pages:
            continue
        if not entry.query:
            remarks.append("An entry had no query; the question was used.")
        kept.append(ReadEntry(pages, entry.query or " ".join(question.split())))
    if unknown:
        remarks.append(_unknown(unknown))
    if 0 < len(kept) < len(entries):
        remarks.append("Entries without an existing page were left out.")
    kept = list(dict.fromkeys(kept))
    if len(kept) > config.max_entries:
        remarks.append(f"Only the first {config.max_entries} entries were read.")
    return Resolved(tuple(kept[: config.max_entries]), tuple(dict.fromkeys(remarks)))


def _unknown(ids: Sequence[str]) -> str:
    named = list(dict.fromkeys(ids))
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f"There are no such pages: {', '.join(named[:_NAMED])}{more}."
