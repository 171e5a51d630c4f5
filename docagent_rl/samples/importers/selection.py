"""The choice of a benchmark's questions, and of their parts."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from docagent_rl.base.errors import UserError
from docagent_rl.samples.sample import Sample, Split
from docagent_rl.samples.splitting import SplitUnit, UnitKey, shuffled, unit_key, unit_keys

REST = -1
"""Size of a part that takes what is left."""


class Paper(StrEnum):
    """A paper whose choice of questions is made."""

    DOC_V_STAR = "doc_v_star"
    """Training questions about documents of more than 10 pages (MP-DocVQA, DUDE)."""
    ALDEN = "alden"
    """Documents of 10 pages or more (DUDE, MP-DocVQA, SlideVQA)."""
    MM_DOC_R1 = "mm_doc_r1"
    """LongDocURL: 300 questions for validation, the others for training."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, then exclusion, then a sample, then parts."""

    split: Split | None = None
    """Keep questions of this split."""
    min_pages: int | None = None
    """Keep questions about documents of so many pages or more."""
    max_pages: int | None = None
    answerable_only: bool = False
    """Leave out questions known to have no answer."""
    hidden: bool = False
    """Keep questions whose answer the benchmark does not tell."""
    sample: int | None = None
    """Keep so many, chosen by seed."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Name and size of each part, `REST` for what is left; empty: one part without a name."""
    seed: int = 0
    """The seed of sample and parts."""
    unit: SplitUnit = SplitUnit.QUESTION
    """The unit that parts and exclusion keep apart."""

    def refusal(self, sample: Sample, *, hidden: bool) -> str | None:
        """Return why a question is left out, by itself; None: it is kept."""
        if refusal := self.early_refusal(sample.split, answerable=sample.answerable, hidden=hidden):
            return refusal
        pages = sample.extra.get("num_pages")
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
        """Return why a question is left out, whatever its document is."""
        if hidden and not self.hidden:
            return "the answer is hidden (--hidden keeps such rows)"
        if self.split not in (None, split):
            return f"another split than {self.split}"
        if self.answerable_only and answerable is False:
            return "unanswerable"
        return None

    def exclude(self, samples: Sequence[Sample], others: Sequence[Sample]) -> list[bool]:
        """Return which questions another set holds, or by document, which cite one that it asks about."""
        if self.unit is SplitUnit.DOCUMENT:
            held = frozenset[str]().union(*(other.document_keys for other in others))
            return [not held.isdisjoint(sample.document_keys) for sample in samples]
        keys = {unit_key(other, self.unit) for other in others}
        return [unit_key(sample, self.unit) in keys for sample in samples]

    def part(self, samples: Sequence[Sample]) -> tuple[dict[str, list[Sample]], list[Sample]]:
        """Return questions by part, each in the order of the file, and those that no part took.

        Units (questions about a document with one text, or documents and what is tied to them) are handed out
        in the order of `shuffled`: the choice does not depend on the order of rows. A unit is never cut: a
        part of whole documents may fall short of its size.

        Raises:
            UserError: there are fewer questions than a part wants.
        """
        keys = unit_keys(samples, self.unit)
        sizes = Counter(keys)
        queue = shuffled(sizes, self.seed)
        if self.sample is not None:
            queue = _fitting(queue, sizes, self.sample)
        owner: dict[UnitKey, str] = {}

        def owned_by(name: str | None) -> list[Sample]:
            return [sample for sample, key in zip(samples, keys, strict=True) if owner.get(key) == name]

        parts: dict[str, list[Sample]] = {}
        for name, size in sorted((self.parts or {"": REST}).items(), key=lambda part: part[1] == REST):
            free = [key for key in queue if key not in owner]
            chosen = free if size == REST else _fitting(free, sizes, size)
            owner.update(dict.fromkeys(chosen, name))
            parts[name] = [_renamed(sample, name) for sample in owned_by(name)]
            if len(parts[name]) < size and len(chosen) == len(free):
                raise UserError(f"--part {name}={size}: only {len(parts[name])} questions are left for it")
        return parts, owned_by(None)


def preset(paper: Paper) -> Selection:
    """Return a paper's choice of questions.

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


def _fitting(queue: Sequence[UnitKey], sizes: Mapping[UnitKey, int], most: int) -> list[UnitKey]:
    """Return the first units that fit into `most` questions."""
    chosen, count = [], 0
    for key in queue:
        if count + sizes[key] <= most:
            chosen.append(key)
            count += sizes[key]
    return chosen


def _renamed(sample: Sample, part: str) -> Sample:
    """Return the sample in the split that the part is named by, if it is named by one."""
    return dataclasses.replace(sample, split=Split(part)) if part in set(Split) else sample
