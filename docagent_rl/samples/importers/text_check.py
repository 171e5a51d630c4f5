"""Whether answers stand on the pages that are cited, which tells a wrong page base."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from docagent_rl.documents import Document, DocumentStore
from docagent_rl.samples.importers.report import ImportReport
from docagent_rl.samples.sample import Sample

SAMPLE = 50
SHORTEST = 4
"""Characters of an answer that is looked for: shorter ones stand on any page."""
_CLEAR = 5
_PLACES = {"cited": 0, "before": -1, "after": 1}


def check_texts(report: ImportReport, samples: Sequence[Sample], store: Path) -> None:
    """Look for sampled answers on the cited page, on the one before and on the one after.

    The counts go to the report, with a warning when a neighbour has clearly more. Documents without a text
    layer are passed over.
    """
    documents = DocumentStore(store, image_cache=0)
    hits = {"sampled": 0, **dict.fromkeys(_PLACES, 0)}
    for sample in sorted(filter(_is_telling, samples), key=_draw_order):
        if hits["sampled"] == SAMPLE:
            break
        document, (page,) = documents.document(sample.doc_id), sample.evidence_pages
        texts = {name: _text(document, page + place) for name, place in _PLACES.items()}
        if any(texts.values()):
            hits["sampled"] += 1
            for name, text in texts.items():
                hits[name] += _folded(sample.answers[0]) in text
    if not hits["sampled"]:
        return
    report.text_check = hits
    if max(hits["before"], hits["after"]) > hits["cited"] + _CLEAR:
        report.warnings.append(
            f"of {hits['sampled']} sampled answers {hits['cited']} stand on the cited page, {hits['before']} "
            f"on the one before and {hits['after']} on the one after: pages may be counted otherwise "
            "(--page-base 0 or 1 sets how)"
        )


def _is_telling(sample: Sample) -> bool:
    own = len(sample.evidence_pages) == 1 and sample.extra.get("page_ids") is None
    return own and bool(sample.answerable) and len(sample.answers) == 1 and len(sample.answers[0]) >= SHORTEST


def _draw_order(sample: Sample) -> bytes:
    return hashlib.sha256(sample.question_id.encode()).digest()


def _text(document: Document, page: int) -> str:
    return _folded(document.page(page).text()) if 1 <= page <= document.num_pages else ""


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())
