"""Selection of questions, and splits into parts that share no question or no document."""

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from docagent_rl.base.errors import UserError
from docagent_rl.samples.sample import Sample, Split

UnitKey = tuple[str, ...]

REST = -1
"""The size of a part that takes all remaining questions."""


class SplitUnit(StrEnum):
    """The unit that parts never split: equal questions about a document, or all questions on it."""

    QUESTION = "question"
    DOCUMENT = "document"


def split_samples(
    samples: Sequence[Sample],
    fraction: float,
    *,
    seed: int = 0,
    unit: SplitUnit = SplitUnit.QUESTION,
) -> tuple[list[Sample], list[Sample]]:
    """Set aside a fraction of the questions for validation; return train and validation questions.

    Questions (or documents) are ordered by a hash of seed and text, and the first ones are set
    aside. The choice does not depend on the order of lines, and mostly stays the same when
    questions are added. Ignoring whitespace, case and a final punctuation mark, no question about a
    document is in both parts. All samples must be in the split `train`. At least one question (or
    document) is set aside, but never all.
    """
    if other := [sample for sample in samples if sample.split is not Split.TRAIN]:
        raise UserError(
            f"question {other[0].question_id!r} is already in the split {other[0].split.value!r}: "
            "convert each split by name (--split train, --split val), or remove the field 'split'"
        )
    keys = unit_keys(samples, unit)
    aside = set_aside(keys, fraction, seed, unit, option="--split")
    keyed = list(zip(samples, keys, strict=True))
    train = [sample for sample, key in keyed if key not in aside]
    val = [dataclasses.replace(sample, split=Split.VAL) for sample, key in keyed if key in aside]
    return train, val


def set_aside(
    keys: Iterable[UnitKey], fraction: float, seed: int, unit: SplitUnit, *, option: str
) -> frozenset[UnitKey]:
    """Return a fraction in (0, 1) of the units, chosen by a hash of seed and key.

    At least one unit is returned, but never all.

    Raises:
        UserError: the fraction is out of range, or there are fewer than two units; the message
            names the option.
    """
    if not 0 < fraction < 1:
        raise UserError(f"{option} {fraction:g}: a fraction must lie between 0 and 1")
    units = set(keys)
    if len(units) < 2:
        raise UserError(
            f"{option} {fraction:g}: there is {len(units)} {unit.value}, and each part needs one"
        )
    return frozenset(
        shuffled(units, seed)[: min(max(round(fraction * len(units)), 1), len(units) - 1)]
    )


def shuffled(units: Iterable[UnitKey], seed: int) -> list[UnitKey]:
    """Return units ordered by a hash of seed and key, independent of the order of the input."""
    return sorted(units, key=lambda key: hashlib.sha256(repr((seed, key)).encode()).digest())


def unit_keys(samples: Sequence[Sample], unit: SplitUnit) -> list[UnitKey]:
    """Return a key per question, by which questions that must stay together are grouped.

    By document, questions that cite pages of the same document share a key. A question over two
    documents joins all questions about either of them: otherwise parts would share a document.
    """
    if unit is SplitUnit.QUESTION:
        return [unit_key(sample, unit) for sample in samples]
    tied: dict[str, str] = {}
    for sample in samples:
        roots = sorted({_root(tied, name) for name in sample.document_keys})
        tied.update(dict.fromkeys(roots, roots[0]))
    return [(_root(tied, sample.document_key),) for sample in samples]


def _root(tied: dict[str, str], name: str) -> str:
    """Return the representative of a group of joined documents (union-find with path halving)."""
    while (other := tied.setdefault(name, name)) != name:
        tied[name] = name = tied[other]
    return name


def unit_key(sample: Sample, unit: SplitUnit) -> UnitKey:
    """Return the key of a question: its document and, with `SplitUnit.QUESTION`, also its text.

    Windows of one document (`Sample.document_key`) share a key.
    """
    if unit is SplitUnit.DOCUMENT:
        return (sample.document_key,)
    return sample.document_key, " ".join(sample.question.casefold().split()).rstrip("?!. ")


@dataclass(frozen=True, slots=True)
class Selection:
    """A selection of questions: filters, then exclusion, then sampling, then parts."""

    split: Split | None = None
    """Keep questions of this split."""
    min_pages: int | None = None
    """Keep questions about documents with at least this many pages."""
    max_pages: int | None = None
    """Keep questions about documents with at most this many pages."""
    answerable_only: bool = False
    """Leave out questions that are known to be unanswerable."""
    sample: int | None = None
    """Keep this many questions, chosen by seed."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Name and size of each part, `REST` for the remaining questions; empty for one unnamed
    part.
    """
    seed: int = 0
    """The seed of sampling and parts."""
    unit: SplitUnit = SplitUnit.QUESTION
    """The unit that parts never split, and by which questions are excluded."""

    def refusal(self, split: Split, *, answerable: bool | None) -> str | None:
        """Return the reason to leave out a question, apart from its document; `None` to keep it."""
        if self.split not in (None, split):
            return f"another split than {self.split}"
        if self.answerable_only and answerable is False:
            return "unanswerable"
        return None

    def length_refusal(self, pages: int | None) -> str | None:
        """Return the reason to leave out questions about a document of this length, or `None`."""
        if self.min_pages is not None and (pages is None or pages < self.min_pages):
            return f"not known to have {self.min_pages} pages"
        if self.max_pages is not None and (pages is None or pages > self.max_pages):
            return f"not known to have {self.max_pages} pages or fewer"
        return None

    def exclude(self, samples: Sequence[Sample], others: Sequence[Sample]) -> list[bool]:
        """Return, for each question, whether another set contains it.

        By document, return whether the question asks about or cites a document of the other set.
        """
        if self.unit is SplitUnit.DOCUMENT:
            held = frozenset[str]().union(*(other.document_keys for other in others))
            return [not held.isdisjoint(sample.document_keys) for sample in samples]
        keys = {unit_key(other, self.unit) for other in others}
        return [unit_key(sample, self.unit) in keys for sample in samples]

    def part(self, samples: Sequence[Sample]) -> tuple[dict[str, list[Sample]], list[Sample]]:
        """Return the questions of each part, in the order of the file, and the remaining ones.

        Units (equal questions about a document, or joined documents) are assigned in the order of
        `shuffled`, so the choice does not depend on the order of rows. A unit is never split, so a
        part of whole documents may be smaller than its size. The samples of a part that is named
        like a split are moved to that split.

        Raises:
            UserError: there are fewer questions than a part requires.
        """
        keys = unit_keys(samples, self.unit)
        sizes = Counter(keys)
        queue = shuffled(sizes, self.seed)
        if self.sample is not None:
            queue = _fitting(queue, sizes, self.sample)
        owner: dict[UnitKey, str] = {}

        def owned_by(name: str | None) -> list[Sample]:
            return [
                sample for sample, key in zip(samples, keys, strict=True) if owner.get(key) == name
            ]

        parts: dict[str, list[Sample]] = {}
        for name, size in sorted(
            (self.parts or {"": REST}).items(), key=lambda part: part[1] == REST
        ):
            free = [key for key in queue if key not in owner]
            chosen = free if size == REST else _fitting(free, sizes, size)
            owner.update(dict.fromkeys(chosen, name))
            parts[name] = owned_by(name)
            if name in set(Split):
                parts[name] = [
                    dataclasses.replace(sample, split=Split(name)) for sample in parts[name]
                ]
            if len(parts[name]) < size and len(chosen) == len(free):
                raise UserError(
                    f"--part {name}={size}: only {len(parts[name])} questions are left for it"
                )
        return parts, owned_by(None)


def _fitting(queue: Sequence[UnitKey], sizes: Mapping[UnitKey, int], most: int) -> list[UnitKey]:
    """Return the first units that together have at most `most` questions, skipping larger ones."""
    chosen = []
    count = 0
    for key in queue:
        if count + sizes[key] <= most:
            chosen.append(key)
            count += sizes[key]
    return chosen
