"""Choosing the pages to ask about, before any request; depends only on seed and documents."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from docagent_rl.lab.generate.config import (
    EvidenceKind,
    GenerateConfig,
    KindConfig,
    QuestionDifficulty,
)
from docagent_rl.lab.generate.pages import DocumentPages


@dataclass(frozen=True, slots=True)
class Slot:
    """One request for questions."""

    doc_id: str
    kind: EvidenceKind
    difficulty: QuestionDifficulty
    number: int
    """Distinguishes the slots of a document, kind and difficulty; from 0."""
    pages: tuple[int, ...]
    """Pages that are shown, counted from 1, in page order."""
    questions: int
    """Most questions asked for."""
    sample: int = 0
    """Number of earlier requests about the same pages."""

    @property
    def slot_id(self) -> str:
        """Its name, unique within a plan."""
        return f"{self.doc_id}-{self.kind.value}-{self.difficulty.value}-{self.number:03d}"

    @property
    def where(self) -> str:
        """Document and pages, for messages."""
        pages = ", ".join(map(str, self.pages))
        return f"document {self.doc_id!r}, page{'s' if len(self.pages) > 1 else ''} {pages}"


@dataclass(frozen=True, slots=True)
class Gap:
    """A kind of question for which a document has no pages, and what is missing."""

    doc_id: str
    kind: EvidenceKind
    why: str


def plan_document(known: DocumentPages, config: GenerateConfig) -> tuple[list[Slot], list[Gap]]:
    """Plan the requests for one document, kind by kind as the configuration lists them.

    The same document, seed and kind give the same pages, whatever else is asked for.
    """
    slots: list[Slot] = []
    gaps: list[Gap] = []
    for asked in (each for each in config.kinds if each.per_document):
        pages = known.with_kind(asked.kind)
        fewest = 2 if asked.kind is EvidenceKind.MULTI_PAGE else 1
        blind = asked.kind is EvidenceKind.UNANSWERABLE and known.unseen
        if len(pages) < fewest or blind:
            gaps.append(Gap(known.doc_id, asked.kind, _why(asked.kind, known)))
        else:
            first = sum(
                (slot.kind, slot.difficulty) == (asked.kind, asked.difficulty) for slot in slots
            )
            slots += _slots(known, asked, pages, first, config.seed)
    return slots, gaps


def _slots(
    known: DocumentPages, asked: KindConfig, pages: Sequence[int], first: int, seed: int
) -> list[Slot]:
    rng = random.Random(
        f"generate/{seed}/{known.doc_id}/{asked.kind.value}/{asked.difficulty.value}/{first}"
    )
    seen: Counter[tuple[int, ...]] = Counter()
    heads: list[int] = []
    slots = []
    for number in range(asked.per_document):
        if not heads:
            heads = rng.sample(list(pages), len(pages))
        shown = _together(known, asked, heads.pop(), pages, rng)
        kind = asked.kind
        level = asked.difficulty
        sample = seen[shown] + 1000 * first
        slots.append(
            Slot(known.doc_id, kind, level, first + number, shown, asked.questions, sample)
        )
        seen[shown] += 1
    return slots


def _together(
    known: DocumentPages, asked: KindConfig, head: int, pages: Sequence[int], rng: random.Random
) -> tuple[int, ...]:
    """Return the pages of a request; for multi_page, those that share most words with the first."""
    others = [page for page in pages if page != head]
    more = min(asked.shown - 1, len(others))
    if asked.kind is EvidenceKind.MULTI_PAGE:
        chosen = known.most_similar(known.texts[head], others, more)
    else:
        chosen = rng.sample(others, more)
    return tuple(sorted([head, *chosen]))


def _why(kind: EvidenceKind, known: DocumentPages) -> str:
    if not known.usable:
        return "no page has text: ingest it again with OCR (--ocr), or show pictures (--view image)"
    if kind is EvidenceKind.UNANSWERABLE and known.unseen:
        return (
            "pages without text may contain the answer: ingest it again with OCR (--ocr), or use "
            "--view image"
        )
    if kind is EvidenceKind.CHART:
        return (
            "no page is known to have a figure that the model can see (charts need --view image "
            "or both)"
        )
    if kind is EvidenceKind.TABLE:
        return "no page has a caption of a table"
    return "too few pages with something to ask about"
