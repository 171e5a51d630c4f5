"""Conditions of a probe: changes of the documents that an agent is shown."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.documents.derived import Face, derive
from docagent_rl.documents.manifest import OutlineEntry
from docagent_rl.documents.store import PageContent
from docagent_rl.samples.sample import Sample

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
    condition: Condition, store: DocumentStore, samples: Iterable[Sample], folder: Path, *, seed: int = 0
) -> Path | None:
    """Return the documents under a condition, made where they are not there yet; `None` as they are.

    Args:
        condition: what is done to them.
        store: of the documents.
        samples: the questions, whose evidence `NO_EVIDENCE` takes away.
        folder: that keeps such stores, named by what they were made of.
        seed: of the order in which `SHUFFLED` exchanges documents.

    Raises:
        UserError: there is but one document to exchange pages with, no question has evidence pages, or the
            folder cannot be written.
    """
    if condition is Condition.AS_IS:
        return None
    gold = evidence(samples) if condition is Condition.NO_EVIDENCE else frozenset()
    others = partners(store.doc_ids(), seed) if condition is Condition.SHUFFLED else {}
    if condition is Condition.NO_EVIDENCE and not gold:
        raise UserError(f"--condition {condition.value}: no question says which pages hold its evidence")
    made_of = [
        _EDITION, condition.value, *map(store.fingerprint, PageContent), sorted(map(str, gold)),
        sorted(others.items()),
    ]  # fmt: skip
    name = hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]
    target = folder / f"{condition.value}-{name}"
    if not target.is_dir():
        change = _Change(condition, store, gold, others)
        derive(store, target, store.doc_ids(), change.face, change.outline)
    return target


def evidence(samples: Iterable[Sample]) -> frozenset[PageRef]:
    """Return pages with evidence for any of the questions."""
    return frozenset(PageRef(doc_id, page) for sample in samples for doc_id, page in sample.gold_pages)


def partners(doc_ids: Sequence[str], seed: int) -> dict[str, str]:
    """Return another document for each, every one taken once.

    Raises:
        UserError: there are fewer than two.
    """
    if len(doc_ids) < 2:
        raise UserError("--condition shuffled exchanges pages between documents: the store holds one alone")
    order = sorted(doc_ids)
    random.Random(f"probe/{seed}").shuffle(order)
    return dict(zip(order, [*order[1:], order[0]], strict=True))


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of documents: white pages for `gold`, those of `others` in the places of a document's own."""

    condition: Condition
    store: DocumentStore
    gold: frozenset[PageRef]
    others: Mapping[str, str]

    def face(self, ref: PageRef) -> Face:
        match self.condition:
            case Condition.TEXT_LAYER:
                return Face(None, ref)
            case Condition.SHUFFLED:
                other = self.others[ref.doc_id]
                page = PageRef(other, (ref.page - 1) % self.store.document(other).num_pages + 1)
                return Face(page, page)
        white = self.condition is Condition.BLANK or ref in self.gold
        return Face(None, None) if white else Face(ref, ref)

    def outline(self, doc_id: str, entries: Sequence[OutlineEntry]) -> Sequence[OutlineEntry]:
        match self.condition:
            case Condition.BLANK:
                return ()
            case Condition.NO_EVIDENCE:
                return [e for e in entries if e.page is None or PageRef(doc_id, e.page) not in self.gold]
            case Condition.SHUFFLED:
                pages = self.store.document(doc_id).num_pages
                found = self.store.document(self.others[doc_id]).outline
                return [entry for entry in found if entry.page is None or entry.page <= pages]
        return entries
