"""Questions in the format that EasyR1's data set reads: one turn, all pages in the prompt.

EasyR1 (verl/utils/dataset.py) takes a Parquet file with a text for the prompt, in which `<image>` marks the
place of each image, the images of it, and the answer. It knows no documents and no tools: what a question is
about has to be in its prompt.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from enum import StrEnum

import pyarrow as pa

from docagent_rl.base.errors import UserError
from docagent_rl.documents import DocumentStore, PageRef
from docagent_rl.envs.checks import references
from docagent_rl.records.parquet import write_table
from docagent_rl.records.record import Record
from docagent_rl.rewards.easyr1 import reference_text

PLACE = "<image>"

_IMAGE = pa.struct([("bytes", pa.binary())])
_TEXT = [("problem", pa.string()), ("answer", pa.string()), ("reference", pa.string())]
_NAMES = [("question_id", pa.string()), ("doc_id", pa.string())]
TEXT_SCHEMA = pa.schema(_TEXT + _NAMES)
PAGE_SCHEMA = pa.schema([*_TEXT, ("images", pa.list_(_IMAGE)), *_NAMES])


class Pages(StrEnum):
    """What a prompt shows beside the question."""

    EVIDENCE = "evidence"
    NONE = "none"


def easyr1_bytes(records: Sequence[Record], store: DocumentStore | None, max_images: int) -> bytes:
    """A Parquet file of questions, in the order given.

    Args:
        records: questions with references; each with evidence where there is a store.
        store: of the pages that are shown, as stored; None shows none, and writes no column of images.
        max_images: of a prompt.

    Raises:
        UserError: a question has no reference or no evidence, has more of it than `max_images`, or its pages
            are not in the store.
    """
    rows = [_row(record, store, max_images) for record in records]
    buffer = io.BytesIO()
    write_table(pa.Table.from_pylist(rows, schema=TEXT_SCHEMA if store is None else PAGE_SCHEMA), buffer)
    return buffer.getvalue()


def has_evidence(record: Record, max_images: int) -> bool:
    """Whether its evidence is known, and no more pages than a prompt may show."""
    return 0 < len(record.gold_pages) <= max_images


def _row(record: Record, store: DocumentStore | None, max_images: int) -> dict:
    if PLACE in record.question:
        raise UserError(f"question {record.question_id!r} holds {PLACE}, which EasyR1 takes for an image")
    right = references(record)
    row = {
        "problem": record.question,
        "answer": right[0],
        "reference": reference_text(record.question, right),
        "question_id": record.question_id,
        "doc_id": record.doc_id,
    }
    if store is None:
        return row
    if not has_evidence(record, max_images):
        pages = len(record.gold_pages)
        raise UserError(
            f"question {record.question_id!r} has {pages} pages of evidence, not 1 to {max_images}"
        )
    shown = [store.page(PageRef(*page)).image_bytes() for page in sorted(record.gold_pages)]
    problem = f"{PLACE * len(shown)}{record.question}"
    return row | {"problem": problem, "images": [{"bytes": picture} for picture in shown]}
