"""Checks whether a question can be played."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.samples.sample import Sample

if TYPE_CHECKING:
    from docagent_rl.documents.store import Document, DocumentStore


def checked_gold(sample: Sample, store: DocumentStore, *, allow_empty: bool) -> frozenset[PageRef]:
    """Return the gold pages of a question after checking that the store contains all of them.

    Raises a `UserError` that names the question if a document or page is missing, or if there are
    no gold pages and `allow_empty` is false.
    """
    require_document(sample, sample.doc_id, store)
    gold = frozenset(PageRef(doc_id, page) for doc_id, page in sample.gold_pages)
    if not gold and not allow_empty:
        raise UserError(
            f"question {sample.question_id!r} has no gold pages, so its retrieval cannot be "
            "rewarded: drop it or set allow_empty_gold"
        )
    for ref in sorted(gold):
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
    match window := sample.extra.get("window"):
        case None:
            return document, range(1, num_pages + 1)
        case [first, last] if type(first) is type(last) is int and 1 <= first <= last <= num_pages:
            return document, range(first, last + 1)
    raise UserError(
        f"question {sample.question_id!r}: extra.window must be the first and the last of the "
        f"pages 1 to {num_pages} of {sample.doc_id!r}, found {window!r}; correct it or remove it"
    )
