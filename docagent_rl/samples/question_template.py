"""Examples of question files: fixed ones, or ones about the documents of a store."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import Document, DocumentStore, Page
from docagent_rl.samples.sample import Sample

TEMPLATE = """\
{"doc_id": "report.pdf", "question": "How many people work for the company?", "answers": "1,204", "evidence_pages": [3]}
{"doc_id": "report.pdf", "question": "In which year was the plant in Lyon opened?", "answers": ["1998", "in 1998"], "evidence_pages": [5, 12]}
{"doc_id": "manual.pdf", "question": "Which three colours does the status light show?", "answers": ["red", "yellow", "green"], "answer_format": "list", "evidence_pages": [7]}
{"doc_id": "manual.pdf", "question": "What does the device cost?", "answerable": false}
"""  # noqa: E501 - lines of a file
"""An example of a file: an answer, alternatives, a list, and a question that the document does not
answer.
"""

PLACEHOLDER = "EXAMPLE, replace me: "
"""The words that begin each question of `store_template`."""
ROWS = 8
"""Number of questions that `store_template` writes: enough for a batch of the CPU profile and for
validation.
"""
_WORDS = 5


def store_template(store: DocumentStore, *, rows: int = ROWS) -> str:
    """Return a file of placeholder questions about the documents of a store, one JSON object a
    line.

    The questions are trivial but true, so that the file can be converted and trained on as it is:
    they ask for the first or last words of a page, or for the number of pages. Documents take
    turns.

    Raises:
        UserError: the store is empty.
    """
    if not len(store):
        raise UserError(f"{store.path}: the store has no documents; run `docagent-rl ingest` first")
    # a store may hold thousands of documents, of which only the first are opened
    documents = (store.document(doc_id) for doc_id in store.doc_ids()[:rows])
    turns = itertools.zip_longest(*map(_placeholders, documents))
    found = (row for turn in turns for row in turn if row is not None)
    chosen = itertools.islice(found, rows)
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in chosen)


def is_placeholder(sample: Sample) -> bool:
    """Return whether a question is still one of `store_template`."""
    return sample.question.startswith(PLACEHOLDER)


def _placeholders(document: Document) -> Iterator[dict[str, Any]]:
    last = document.num_pages
    yield _row(document, "How many pages does this document have?", str(last), last)
    for verb, part in (("begin", slice(None, _WORDS)), ("end", slice(-_WORDS, None))):
        for number in range(1, last + 1):
            if words := _words(document.page(number)):
                question = f"Which words does page {number} {verb} with?"
                yield _row(document, question, " ".join(words[part]), number)


def _row(document: Document, question: str, answer: str, page: int) -> dict[str, Any]:
    return {
        "doc_id": document.doc_id,
        "question": PLACEHOLDER + question,
        "answers": answer,
        "evidence_pages": [page],
    }


def _words(page: Page) -> list[str]:
    return [word for word in page.text().split() if word.isprintable()]
