"""Which of a benchmark's questions are taken, and how they are parted."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from docagent_rl.base.errors import UserError
from docagent_rl.records.record import Record, Split
from docagent_rl.records.splitting import SplitUnit, unit_key, unit_keys

REST = -1
"""Size of a part that takes what is left."""


class Paper(StrEnum):
    """Whose choice of questions is made."""

    DOC_V_STAR = "doc_v_star"
    """Training questions about documents of more than 10 pages (MP-DocVQA, DUDE)."""
    ALDEN = "alden"
    """Documents of 10 pages or more (DUDE, MP-DocVQA, SlideVQA)."""
    MM_DOC_R1 = "mm_doc_r1"
    """LongDocURL: 300 questions for validation, the others for training."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, then exclusion, then a sample, then parts.

    Args:
        split: keep questions of this split.
        min_pages: keep questions about documents of so many pages or more.
        max_pages: ... or fewer.
        answerable_only: leave out questions known to have no answer.
        hidden: keep questions whose answer the benchmark does not tell.
        sample: keep so many, chosen by seed.
        parts: name and size of each part, `REST` for what is left; empty: one part without a name.
        seed: of sample and parts.
        unit: what parts and exclusion keep apart.
    """

    split: Split | None = None
    min_pages: int | None = None
    max_pages: int | None = None
    answerable_only: bool = False
    hidden: bool = False
    sample: int | None = None
    parts: Mapping[str, int] = field(default_factory=dict)
    seed: int = 0
    unit: SplitUnit = SplitUnit.QUESTION

    def refusal(self, record: Record, *, hidden: bool) -> str | None:
        """Why a question is not taken, by itself; None: it is."""
        if refusal := self.early_refusal(record.split, answerable=record.answerable, hidden=hidden):
            return refusal
        pages = record.extra.get("num_pages")
        if self.min_pages is None and self.max_pages is None:
            return None
        if not isinstance(pages, int):
            return "the length of the document is not known"
        if self.min_pages is not None and pages < self.min_pages:
            return f"fewer than {self.min_pages} pages"
        if self.max_pages is not None and pages > self.max_pages:
            return f"more than {self.max_pages} pages"
        return None

    def early_refusal(self, split: Split, *, answerable: bool | None, hidden: bool) -> str | None:
        """Why a question is not taken, whatever its document is."""
        if hidden and not self.hidden:
            return "the answer is hidden (--hidden keeps such rows)"
        if self.split not in (None, split):
            return f"another split than {self.split}"
        if self.answerable_only and answerable is False:
            return "unanswerable"
        return None

    def exclude(self, records: Sequence[Record], others: Sequence[Record]) -> list[bool]:
        """Which questions another set holds already, or by document, which cite one that it asks about."""
        if self.unit is SplitUnit.DOCUMENT:
            held = frozenset[str]().union(*(other.document_keys for other in others))
            return [not held.isdisjoint(record.document_keys) for record in records]
        taken = {unit_key(other, self.unit) for other in others}
        return [unit_key(record, self.unit) in taken for record in records]

    def part(self, records: Sequence[Record]) -> tuple[dict[str, list[Record]], list[Record]]:
        """Questions by part, each in the order of the file, and those that no part took.

        Units (questions about a document with one text, or documents and what is tied to them) are ordered by
        a hash of seed and text, as in `split_records`, and handed out in that order: the choice does not hang
        on the order of rows. A unit is never cut: a part of whole documents may fall short of its size.

        Raises:
            UserError: there are fewer questions than a part wants.
        """
        keys = unit_keys(records, self.unit)
        groups = Counter(keys)
        queue = sorted(groups, key=lambda key: hashlib.sha256(repr((self.seed, key)).encode()).digest())
        if self.sample is not None:
            chosen, queue = queue, []
            count = 0
            for key in chosen:
                if count + groups[key] <= self.sample:
                    queue.append(key)
                    count += groups[key]
        parts: dict[str, list[Record]] = {}
        owner: dict[tuple[str, ...], str] = {}
        ordered = sorted((self.parts or {"": REST}).items(), key=lambda part: part[1] == REST)
        for name, size in ordered:
            taken = 0
            for key in queue:
                if key not in owner and (size == REST or taken + groups[key] <= size):
                    owner[key] = name
                    taken += groups[key]
            if taken < size and all(key in owner for key in queue):
                raise UserError(f"--part {name}={size}: only {taken} questions are left for it")
            parts[name] = [
                _renamed(record, name)
                for record, key in zip(records, keys, strict=True)
                if owner.get(key) == name
            ]
        left = [record for record, key in zip(records, keys, strict=True) if key not in owner]
        return parts, left


def preset(paper: Paper) -> Selection:
    """A paper's choice of questions.

    Doc-V* (training details in the appendix) takes training questions about documents of more than 10 pages,
    ALDEN (appendix A.1) discards documents of fewer than 10, where its main text ("Datasets") speaks of more
    than 3; MM-Doc-R1 sets 300 of LongDocURL's questions aside for validation.
    """
    match paper:
        case Paper.DOC_V_STAR:
            return Selection(split=Split.TRAIN, min_pages=11)
        case Paper.ALDEN:
            return Selection(min_pages=10)
        case Paper.MM_DOC_R1:
            return Selection(parts={"val": 300, "train": REST})


def _renamed(record: Record, part: str) -> Record:
    """In the split that the part is named by, if it is named by one."""
    return dataclasses.replace(record, split=Split(part)) if part in set(Split) else record
