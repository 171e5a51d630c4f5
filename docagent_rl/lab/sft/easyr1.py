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
from docagent_rl.rewards.easyr1 import reference_text
from docagent_rl.samples.parquet import write_table
from docagent_rl.samples.sample import Sample

PLACE = "<image>"

_IMAGE = pa.struct([("bytes", pa.binary())])
_TEXT = [("problem", pa.string()), ("answer", pa.string()), ("reference", pa.string())]
_NAMES = [("question_id", pa.string()), ("doc_id", pa.string())]
TEXT_SCHEMA = pa.schema(_TEXT + _NAMES)
PAGE_SCHEMA = pa.schema([*_TEXT, ("images", pa.list_(_IMAGE)), *_NAMES])


class Pages(StrEnum):
    """The pages that a prompt shows beside the question."""

    EVIDENCE = "evidence"
    NONE = "none"


def easyr1_bytes(samples: Sequence[Sample], store: DocumentStore | None, max_images: int) -> bytes:
    """Return a Parquet file of questions with references, in the order given.

    Their pages of evidence, `max_images` at most, are shown as the store has them; without a store there is
    no column of images.

    Raises:
        UserError: a question has no reference or no evidence, has more of it than `max_images`, or its pages
            are not in the store.
    """
    rows = [_row(sample, store, max_images) for sample in samples]
    buffer = io.BytesIO()
    write_table(pa.Table.from_pylist(rows, schema=TEXT_SCHEMA if store is None else PAGE_SCHEMA), buffer)
    return buffer.getvalue()


def has_evidence(sample: Sample, max_images: int) -> bool:
    """Return whether its evidence is known, and no more pages than a prompt may show."""
    return 0 < len(sample.gold_pages) <= max_images


def _row(sample: Sample, store: DocumentStore | None, max_images: int) -> dict:
    if PLACE in sample.question:
        raise UserError(f"question {sample.question_id!r} holds {PLACE}, which EasyR1 takes for an image")
    right = references(sample)
    row = {
        "problem": sample.question,
        "answer": right[0],
        "reference": reference_text(sample.question, right),
        "question_id": sample.question_id,
        "doc_id": sample.doc_id,
    }
    if store is None:
        return row
    if not has_evidence(sample, max_images):
        pages = len(sample.gold_pages)
        raise UserError(
            f"question {sample.question_id!r} has {pages} pages of evidence, not 1 to {max_images}"
        )
    shown = [store.page(PageRef(*page)).image_bytes() for page in sorted(sample.gold_pages)]
    problem = f"{PLACE * len(shown)}{sample.question}"
    return row | {"problem": problem, "images": [{"bytes": picture} for picture in shown]}
