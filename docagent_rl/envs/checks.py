"""Checks that a question can be played."""

from __future__ import annotations

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.rewards.text import NOT_ANSWERABLE
from docagent_rl.samples.sample import Sample


def checked_gold(sample: Sample, store: DocumentStore, *, allow_empty: bool) -> frozenset[PageRef]:
    """Return the gold pages of a question, all of them in the store.

    Raises:
        UserError: the document or a gold page is missing, or nothing is gold; the message names the question.
    """
    require_document(sample, sample.doc_id, store)
    gold = frozenset(PageRef(doc_id, page) for doc_id, page in sample.gold_pages)
    if not gold and not allow_empty:
        raise UserError(
            f"question {sample.question_id!r} has no gold pages, so its retrieval cannot be rewarded: "
            "drop it or set allow_empty_gold"
        )
    for ref in sorted(gold):
        require_document(sample, ref.doc_id, store)
        pages = store.document(ref.doc_id).num_pages
        if ref.page > pages:
            raise UserError(
                f"question {sample.question_id!r}: gold page {ref.page} of {ref.doc_id!r} does not exist, "
                f"the document has {pages} pages"
            )
    return gold


def references(sample: Sample) -> tuple[str, ...]:
    """Return the right answers of a question, in the form that judges take.

    Alternatives stay apart; the items of a list answer are joined by `"; "`; an unanswerable question has
    one reference that says so.

    Raises:
        UserError: there is no reference answer; the message names the question.
    """
    if sample.answerable is False:
        return (NOT_ANSWERABLE,)
    if not sample.answers:
        raise UserError(
            f"question {sample.question_id!r} has no reference answer and cannot be scored: drop it"
        )
    # DUDE has list/extractive and list/abstractive
    if sample.answer_format.strip().casefold().partition("/")[0] == "list":
        return ("; ".join(sample.answers),)
    return sample.answers


def require_document(sample: Sample, doc_id: str, store: DocumentStore) -> None:
    """Check that a document of a question is in the store.

    Raises:
        UserError: it is not; the message names the question.
    """
    if doc_id not in store:
        raise UserError(
            f"question {sample.question_id!r}: {store} has no document {doc_id!r}; "
            "ingest it or drop the question"
        )


def played_pages(sample: Sample, num_pages: int, *, use_window: bool) -> range:
    """Return the pages of its document that a question is played on: all, or its window (`extra.window`).

    Raises:
        UserError: the window does not lie in the document; the message names the question.
    """
    window = sample.extra.get("window") if use_window else None
    match window:
        case None:
            return range(1, num_pages + 1)
        case [first, last] if type(first) is type(last) is int and 1 <= first <= last <= num_pages:
            return range(first, last + 1)
    raise UserError(
        f"question {sample.question_id!r}: extra.window must be the first and the last of the pages 1 to "
        f"{num_pages} of {sample.doc_id!r}, found {window!r}; correct it or switch the window off"
    )
