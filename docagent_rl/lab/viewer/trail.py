"""The path of a trajectory through its documents: pages that are gold, were found, opened, shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore
from docagent_rl.lab.viewer.messages import pieces_of
from docagent_rl.rollout.evidence import found_pages, gold_boxes, gold_pages, turn_looks
from docagent_rl.samples.sample import parse_page_id

MOST_DOCUMENTS = 12
"""Of a search over a corpus, those that matter most."""
_OPENING = frozenset({"fetch", "read", "select"})

Page = tuple[str, int]


def documents(
    trajectory: Mapping[str, Any], store: DocumentStore | None
) -> dict[str, Any] | list[dict[str, Any]]:
    """Return each document that the trajectory touched, the question's own first; no list where it is
    alone.
    """
    sample, turns = trajectory["sample"], trajectory["turns"]
    own = str(sample.get("doc_id") or "")
    looks = [_pages(look.page for look in turn_looks(turn, n)) for n, turn in enumerate(turns)]
    boxes = {parse_page_id(page): found for page, found in gold_boxes(sample).items()}
    pages = {
        "gold": _pages(gold_pages(sample)),
        "fetched": {page for turn, seen in zip(turns, looks, strict=True) if _opens(turn) for page in seen},
        "searched": _pages(page for turn in turns for page in found_pages(turn)),
        "shown": _pages(str(piece.get("page")) for piece in pieces_of(trajectory))
        | {page for turn, seen in zip(turns, looks, strict=True) if not turn.get("dropped") for page in seen},
    }
    ranks: dict[str, int] = {own: 0} if own else {}
    for rank, some in enumerate((pages["gold"], pages["fetched"] | pages["shown"], pages["searched"]), 1):
        for doc_id, _ in sorted(some):
            ranks.setdefault(doc_id, rank)
    found = [
        {
            "doc_id": doc_id,
            "pages": _length(doc_id, store, sample, pages),
            **{name: _of(doc_id, some) for name, some in pages.items()},
            "boxes": {str(page): [list(box) for box in boxes[doc_id, page]] for page in _of(doc_id, boxes)},
        }
        for doc_id in sorted(ranks, key=lambda name: (ranks[name], name))[:MOST_DOCUMENTS]
    ]
    return found[0] if len(found) == 1 else found


def _opens(turn: Mapping[str, Any]) -> bool:
    return (turn.get("info", {}).get("action") or {}).get("kind") in _OPENING


def _length(
    doc_id: str, store: DocumentStore | None, sample: Mapping[str, Any], pages: Mapping[str, set[Page]]
) -> int:
    """Return the pages of a document; where nobody knows, up to the last one that was touched."""
    if store is not None and doc_id in store:
        try:
            return store.document(doc_id).num_pages
        except UserError:
            pass
    stated = (sample.get("extra") or {}).get("num_pages") if doc_id == sample.get("doc_id") else None
    touched = pages["gold"] | pages["shown"] | pages["searched"]
    last = max(_of(doc_id, touched), default=0)
    return max(int(stated), last) if isinstance(stated, int) else last


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
