"""Labels of questions: the lines of breakdowns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from docagent_rl.rewards.literals import safe_literal
from docagent_rl.samples.sample import Sample

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


def labels_of(sample: Sample) -> dict[str, list[str]]:
    """Return the labels of a question by their kind.

    Returns:
        Every kind of `Label`, and the benchmark's own fields by their names. A question without a label of a
        kind has `unknown`.
    """
    pages = len(sample.gold_pages)
    evidence = "none" if not pages else "single" if pages == 1 else "several"
    if not pages and sample.answerable is not False:
        evidence = UNKNOWN
    answerable = {True: "yes", False: "no", None: UNKNOWN}[sample.answerable]
    found = {
        Label.MODALITY.value: sorted(set(sample.evidence_sources)) or [UNKNOWN],
        Label.EVIDENCE.value: [evidence],
        Label.LENGTH.value: [_length(sample)],
        Label.ANSWERABLE.value: [answerable],
    }
    for name in _OWN:
        if values := sorted({_one_spelling(text) for text in _texts(sample.extra.get(name))}):
            found[name] = values
    return found


def _length(sample: Sample) -> str:
    """Return the stratum of the pages of a question's window, where it has one, else of its document."""
    window, pages = sample.extra.get("window"), sample.extra.get("num_pages")
    if isinstance(window, list | tuple) and [type(end) for end in window] == [int, int]:
        pages = window[1] - window[0] + 1
    elif type(pages) is not int or pages <= 0:
        return UNKNOWN
    return next((name for most, name in _LENGTHS if pages <= most), _BEYOND)


def native_pages(sample: Sample) -> tuple[int, ...]:
    """Return evidence pages as the benchmark lists them: in its order, with those outside of the document."""
    native: Any = sample.extra.get("native_evidence_pages")
    if isinstance(native, str):
        try:
            native = safe_literal(native)
        except ValueError:
            native = None
    if isinstance(native, list | tuple) and all(type(page) is int for page in native):
        return tuple(native)
    return sample.evidence_pages


def rows_of(labels: Mapping[str, Iterable[str]]) -> list[tuple[str, str]]:
    """Return labels as pairs of kind and value: the lines of breakdowns."""
    return [(kind, value) for kind, values in labels.items() for value in values]


def _one_spelling(text: str) -> str:
    """Return numbers of hops as the papers spell them, other texts as they are."""
    hops = _HOPS.fullmatch(text.strip())
    return f"{hops[1].capitalize()}-Hop" if hops else text


def _texts(value: Any) -> list[str]:
    items = value if isinstance(value, list | tuple) else [value]
    return [item for item in items if isinstance(item, str) and item.strip()]
