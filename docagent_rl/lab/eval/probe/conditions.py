"""What is done to the documents that an agent is shown."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.documents.derived import Face, Faces, Outline, derive
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.store import PageContent
from docagent_rl.records.record import Record

_EDITION = 1


class Condition(StrEnum):
    """Searches find the same pages under all of them; what is shown differs."""

    AS_IS = "as_is"
    """The documents as they are."""
    BLANK = "blank"
    """Every page white, without a text, documents without bookmarks."""
    TEXT_LAYER = "text_layer"
    """Every page white, texts and bookmarks as they are."""
    NO_EVIDENCE = "no_evidence"
    """Pages with evidence for any of the questions white and without text, and no bookmark leads to them."""
    SHUFFLED = "shuffled"
    """Pages of another document in the places of all, again and again where it is shorter; its bookmarks."""


def shown_store(
    condition: Condition, store: DocumentStore, records: Iterable[Record], folder: Path, *, seed: int = 0
) -> Path | None:
    """The documents under a condition, made where they are not there yet.

    Args:
        condition: what is done to them.
        store: of the documents.
        records: the questions, whose evidence `NO_EVIDENCE` takes away.
        folder: that keeps such stores, named by what they were made of.
        seed: of the order in which `SHUFFLED` exchanges documents.

    Returns:
        A store; None where nothing is done to them.

    Raises:
        UserError: there is but one document to exchange pages with, no question has evidence pages, or the
            folder cannot be written.
    """
    if condition is Condition.AS_IS:
        return None
    doc_ids = store.doc_ids()
    gold: frozenset[PageRef] = frozenset()
    others: dict[str, str] = {}
    if condition is Condition.NO_EVIDENCE:
        gold = evidence(records)
        if not gold:
            raise UserError(f"--condition {condition.value}: no question says which pages hold its evidence")
    if condition is Condition.SHUFFLED:
        others = partners(doc_ids, seed)
    made_of = [
        _EDITION, condition.value, *map(store.fingerprint, PageContent), sorted(map(str, gold)),
        sorted(others.items()),
    ]  # fmt: skip
    name = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]
    target = folder / f"{condition.value}-{name}"
    if not target.is_dir():
        derive(
            store,
            target,
            doc_ids,
            _faces(condition, store, gold, others),
            _outline(condition, store, gold, others),
        )
    return target


def evidence(records: Iterable[Record]) -> frozenset[PageRef]:
    """Pages with evidence for any of the questions."""
    return frozenset(PageRef(doc_id, page) for record in records for doc_id, page in record.gold_pages)


def partners(doc_ids: Sequence[str], seed: int) -> dict[str, str]:
    """Another document for each, every one taken once.

    Raises:
        UserError: there are fewer than two.
    """
    if len(doc_ids) < 2:
        raise UserError("--condition shuffled exchanges pages between documents: the store holds one alone")
    order = sorted(doc_ids)
    random.Random(f"probe/{seed}").shuffle(order)
    return dict(zip(order, [*order[1:], order[0]], strict=True))


def _faces(
    condition: Condition, store: DocumentStore, gold: frozenset[PageRef], others: dict[str, str]
) -> Faces:
    def face(ref: PageRef) -> Face:
        match condition:
            case Condition.BLANK:
                return Face(None, None)
            case Condition.TEXT_LAYER:
                return Face(None, ref)
            case Condition.NO_EVIDENCE:
                return Face(None, None) if ref in gold else Face(ref, ref)
            case Condition.SHUFFLED:
                other = others[ref.doc_id]
                number = (ref.page - 1) % store.document(other).num_pages + 1
                return Face(PageRef(other, number), PageRef(other, number))
        return Face(ref, ref)

    return face


def _outline(
    condition: Condition, store: DocumentStore, gold: frozenset[PageRef], others: dict[str, str]
) -> Outline:
    def outline(doc_id: str, entries: Sequence[OutlineEntry]) -> Sequence[OutlineEntry]:
        match condition:
            case Condition.BLANK:
                return ()
            case Condition.NO_EVIDENCE:
                return [e for e in entries if e.page is None or PageRef(doc_id, e.page) not in gold]
            case Condition.SHUFFLED:
                pages = store.document(doc_id).num_pages
                found = store.document(others[doc_id]).outline
                return [entry for entry in found if entry.page is None or entry.page <= pages]
        return entries

    return outline
