"""The path of a session through its documents: which pages are gold, were found, opened, shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.lab.viewer.pages import pieces_of
from docagent_rl.records.record import parse_page_id
from docagent_rl.rollout.evidence import found_pages, gold_boxes, gold_pages, turn_looks

MOST_DOCUMENTS = 12
"""Of a search over a corpus, those that matter most."""
_OPENING = frozenset({"fetch", "read", "select"})

Page = tuple[str, int]


def documents(
    session: Mapping[str, Any], length: Callable[[str], int | None]
) -> dict[str, Any] | list[dict[str, Any]]:
    """Each document that the session touched; the question's own first, alone where it is the only one.

    Args:
        session: as recorded.
        length: pages of a document, where they are known.
    """
    record = session["record"]
    own = str(record.get("doc_id") or "")
    gold = _pages(gold_pages(record))
    boxes = {parse_page_id(page): found for page, found in gold_boxes(record).items()}
    shown, fetched = _pages(str(piece.get("page")) for piece in pieces_of(session)), set[Page]()
    searched = _pages(page for turn in session["turns"] for page in found_pages(turn))
    for number, turn in enumerate(session["turns"]):
        looks = _pages(look.page for look in turn_looks(turn, number))
        if not turn.get("dropped"):
            shown |= looks
        if (turn.get("info", {}).get("action") or {}).get("kind") in _OPENING:
            fetched |= looks
    ranks: dict[str, int] = {own: 0} if own else {}
    for rank, pages in enumerate((gold, fetched | shown, searched), 1):
        for doc_id, _ in sorted(pages):
            ranks.setdefault(doc_id, rank)
    found = [
        {
            "doc_id": doc_id,
            "pages": _length(doc_id, record, length, (gold, shown, searched)),
            "gold": _of(doc_id, gold),
            "fetched": _of(doc_id, fetched),
            "searched": _of(doc_id, searched),
            "shown": _of(doc_id, shown),
            "boxes": {str(page): [list(box) for box in boxes[doc_id, page]] for page in _of(doc_id, boxes)},
        }
        for doc_id in sorted(ranks, key=lambda name: (ranks[name], name))[:MOST_DOCUMENTS]
    ]
    return found[0] if len(found) == 1 else found


def _length(
    doc_id: str,
    record: Mapping[str, Any],
    length: Callable[[str], int | None],
    touched: Iterable[Iterable[Page]],
) -> int:
    """Pages of a document; where nobody knows, up to the last one that was touched."""
    known = length(doc_id)
    if known is not None:
        return known
    told = (record.get("extra") or {}).get("num_pages") if doc_id == record.get("doc_id") else None
    seen = max((page for pages in touched for name, page in pages if name == doc_id), default=0)
    return max(int(told), seen) if isinstance(told, int) else seen


def _of(doc_id: str, pages: Iterable[Page]) -> list[int]:
    return sorted(page for name, page in pages if name == doc_id)


def _pages(names: Iterable[str]) -> set[Page]:
    found = set()
    for name in names:
        try:
            found.add(parse_page_id(name))
        except UserError:
            continue
    return found
