"""What a question and its session are told apart by: the lines of breakdowns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from docagent_rl.records.record import Record
from docagent_rl.rewards.literals import safe_literal

UNKNOWN = "unknown"
_LENGTHS = ((10, "1 to 10"), (20, "11 to 20"), (40, "21 to 40"), (80, "41 to 80"))
_BEYOND = "over 80"
"""Doc-V* reports documents of more than 80 pages apart."""
_OWN = ("query_type", "reasoning_type", "doc_type", "task_tag", "question_type", "source_type", "answer_type")
"""Native fields, kept by the importers, that benchmarks break their tables down by."""
_HOPS = re.compile(r"(single|multi)[-_ ]?hop", re.IGNORECASE)
"""ViDoSeek's description writes `Multi-Hop`, its file `multi_hop`, VRAG-RL's converter `MultiHop`."""


class Label(StrEnum):
    """Kinds of labels."""

    MODALITY = "modality"
    """Where the evidence stands, in the benchmark's words; several where it stands in several."""
    EVIDENCE = "evidence pages"
    """`none`, `single`, `several`."""
    LENGTH = "pages of the document"
    ANSWERABLE = "answerable"


def labels_of(record: Record) -> dict[str, list[str]]:
    """Labels of a question by their kind.

    Returns:
        Every kind of `Label`, and the benchmark's own fields by their names. A question without a label of a
        kind has `unknown`.
    """
    pages = len(record.gold_pages)
    evidence = "none" if not pages else "single" if pages == 1 else "several"
    if not pages and record.answerable is not False:
        evidence = UNKNOWN
    answerable = {True: "yes", False: "no", None: UNKNOWN}[record.answerable]
    found = {
        Label.MODALITY.value: sorted(set(record.evidence_sources)) or [UNKNOWN],
        Label.EVIDENCE.value: [evidence],
        Label.LENGTH.value: [length_stratum(document_length(record))],
        Label.ANSWERABLE.value: [answerable],
    }
    for name in _OWN:
        if values := sorted({_one_spelling(text) for text in _texts(record.extra.get(name))}):
            found[name] = values
    return found


def document_length(record: Record) -> int | None:
    """Pages that a question can be about: those of its window where it has one, else of its document."""
    window = record.extra.get("window")
    if isinstance(window, list | tuple) and [type(end) for end in window] == [int, int]:
        return window[1] - window[0] + 1
    length = record.extra.get("num_pages")
    return length if type(length) is int and length > 0 else None


def length_stratum(pages: int | None) -> str:
    """The stratum of a document of so many pages."""
    if pages is None:
        return UNKNOWN
    return next((name for most, name in _LENGTHS if pages <= most), _BEYOND)


def native_pages(record: Record) -> tuple[int, ...]:
    """Evidence pages as the benchmark lists them: in its order, with those outside of the document."""
    native: Any = record.extra.get("native_evidence_pages")
    if isinstance(native, str):
        try:
            native = safe_literal(native)
        except ValueError:
            native = None
    if isinstance(native, list | tuple) and all(type(page) is int for page in native):
        return tuple(native)
    return record.evidence_pages


def flat(labels: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Labels as pairs of kind and value."""
    return [(kind, value) for kind, values in labels.items() for value in values]


def _one_spelling(text: str) -> str:
    """Numbers of hops as the papers spell them, other texts as they are."""
    hops = _HOPS.fullmatch(text.strip())
    return f"{hops[1].capitalize()}-Hop" if hops else text


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list | tuple) else [value]
    return [item for item in items if isinstance(item, str) and item.strip()]
