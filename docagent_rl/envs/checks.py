"""Checks whether a question can be played."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.samples.sample import Sample
from docagent_rl.samples.window import window_of

if TYPE_CHECKING:
    from docagent_rl.documents.store import Document, DocumentStore


def checked_gold(sample: Sample, store: DocumentStore, *, allow_empty: bool) -> frozenset[PageRef]:
    """Return the gold pages of a question, those in play, after checking that the store contains
    every labelled page.

    Raises a `UserError` that names the question if a document or page is missing, if its document
    has no such window, or if there are no gold pages and `allow_empty` is false.
    """
    _, pages = played_pages(sample, store)
    gold = frozenset(PageRef(doc_id, page) for doc_id, page in sample.gold_pages)
    labelled = [PageRef(doc_id, page) for doc_id, page in sorted(sample.labelled_pages)]
    if not gold and not allow_empty:
        where = f" in its window, pages {pages[0]} to {pages[-1]}" if labelled else ""
        raise UserError(
            f"question {sample.question_id!r} has no gold pages{where}, so its retrieval cannot be "
            "rewarded: drop it or set allow_empty_gold"
        )
    for ref in labelled:
        require_document(sample, ref.doc_id, store)
        pages = store.document(ref.doc_id).num_pages
        if ref.page > pages:
            raise UserError(
                f"question {sample.question_id!r}: gold page {ref.page} of {ref.doc_id!r} does not "
                f"exist, the document has {pages} pages"
            )
    return gold


def references(sample: Sample) -> tuple[str, ...]:
    """Return the right answers of a question, in the form that judges expect.

    Alternatives are separate references, the items of a list answer are joined by `"; "`, and an
    unanswerable question has a single reference that says so. Raises `UserError` if there is no
    reference answer.
    """
    if sample.answerable is False:
        return (NOT_ANSWERABLE,)
    if not sample.answers:
        raise UserError(
            f"question {sample.question_id!r} has no reference answer and cannot be scored: drop it"
        )
    if sample.lists_answers:
        return ("; ".join(sample.answers),)
    return sample.answers


def require_document(sample: Sample, doc_id: str, store: DocumentStore) -> None:
    """Raise a `UserError` that names the question if its document is not in the store."""
    if doc_id not in store:
        raise UserError(
            f"question {sample.question_id!r}: {store} has no document {doc_id!r}; "
            "ingest it or drop the question"
        )


def played_pages(sample: Sample, store: DocumentStore) -> tuple[Document, range]:
    """Return the document of a question and its pages in play: all, or a window (`extra.window`).

    Raises a `UserError` that names the question if the store lacks the document, or the document
    has no such window.
    """
    require_document(sample, sample.doc_id, store)
    document = store.document(sample.doc_id)
    num_pages = document.num_pages
    given = sample.extra.get("window")
    if given is None:
        return document, range(1, num_pages + 1)
    window = window_of(sample.extra)
    if window is None or window[-1] > num_pages:
        raise UserError(
            f"question {sample.question_id!r}: extra.window must be the first and the last of the "
            f"pages 1 to {num_pages} of {sample.doc_id!r}, found {given!r}; correct it or remove it"
        )
    return document, window


def pages_outside(sample: Sample, store: DocumentStore) -> frozenset[PageRef]:
    """Return the pages of a question's document outside its window, which no search may find.

    Without a window there are none. Raises as `played_pages` does.
    """
    if sample.extra.get("window") is None:
        return frozenset()
    document, pages = played_pages(sample, store)
    every = range(1, document.num_pages + 1)
    return frozenset(PageRef(sample.doc_id, page) for page in every if page not in pages)
