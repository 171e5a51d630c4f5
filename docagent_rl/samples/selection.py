"""The choice of questions, and of parts that share no question, or no document."""

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
"""Size of a part that takes the questions that are left."""


class SplitUnit(StrEnum):
    """The questions that stay together: one about a document, however often it is written down, or
    all about a document.
    """

    QUESTION = "question"
    DOCUMENT = "document"


def split_samples(
    samples: Sequence[Sample],
    fraction: float,
    *,
    seed: int = 0,
    unit: SplitUnit = SplitUnit.QUESTION,
) -> tuple[list[Sample], list[Sample]]:
    """Set a fraction of the questions aside for validation, and return both parts in their order.

    Questions (or documents) are ordered by a hash of seed and text, and the first ones set aside:
    the choice does not depend on the order of lines, and mostly stays when questions are added.
    White space, case and a final mark aside, no question about a document is in both parts. The
    samples are all of the split `train`; of the questions, or documents, one at least is set aside,
    and not all.
    """
    if other := [sample for sample in samples if sample.split is not Split.TRAIN]:
        raise UserError(
            f"question {other[0].question_id!r} says that it is in the split "
            f"{other[0].split.value!r}: "
            "convert each split by name (--split train, --split val), or take the field 'split' out"
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
    """Return a fraction in (0, 1) of the units, by a hash of seed and key; at least one, and not
    all.

    Raises:
        UserError: the fraction is out of range, or there is but one unit; the message names the
            option.
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
    """Return units in the order of a hash of seed and key, which does not depend on their order."""
    return sorted(units, key=lambda key: hashlib.sha256(repr((seed, key)).encode()).digest())


def unit_keys(samples: Sequence[Sample], unit: SplitUnit) -> list[UnitKey]:
    """Return `unit_key` of each question; by document, those that cite pages of one document have
    one key.

    A question over two documents ties all questions about either: parts that kept them apart would
    share a document.
    """
    if unit is SplitUnit.QUESTION:
        return [unit_key(sample, unit) for sample in samples]
    tied: dict[str, str] = {}
    for sample in samples:
        roots = sorted({_root(tied, name) for name in sample.document_keys})
        tied.update(dict.fromkeys(roots, roots[0]))
    return [(_root(tied, sample.document_key),) for sample in samples]


def _root(tied: dict[str, str], name: str) -> str:
    """Return the first by name of the documents that are tied to one."""
    while (other := tied.setdefault(name, name)) != name:
        tied[name] = name = tied[other]
    return name


def unit_key(sample: Sample, unit: SplitUnit) -> UnitKey:
    """Return the key that questions that stay together share: the document, and by question its
    text as well.

    Windows of one document (`Sample.document_key`) stay together.
    """
    if unit is SplitUnit.DOCUMENT:
        return (sample.document_key,)
    return sample.document_key, " ".join(sample.question.casefold().split()).rstrip("?!. ")


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters, then exclusion, then a sample, then parts."""

    split: Split | None = None
    """Keep questions of this split."""
    min_pages: int | None = None
    """Keep questions about documents of so many pages or more."""
    max_pages: int | None = None
    """Keep questions about documents of so many pages or fewer."""
    answerable_only: bool = False
    """Leave out questions known to have no answer."""
    sample: int | None = None
    """Keep so many, chosen by seed."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """Name and size of each part, `REST` for the questions left; empty: one part without a name."""
    seed: int = 0
    """The seed of sample and parts."""
    unit: SplitUnit = SplitUnit.QUESTION
    """The unit that parts and exclusion keep apart."""

    def refusal(self, split: Split, *, answerable: bool | None) -> str | None:
        """Return the reason to leave a question out, whatever its document is; None: it is kept."""
        if self.split not in (None, split):
            return f"another split than {self.split}"
        if self.answerable_only and answerable is False:
            return "unanswerable"
        return None

    def length_refusal(self, pages: int | None) -> str | None:
        """Return the reason to leave out questions about a document of so many pages."""
        if self.min_pages is not None and (pages is None or pages < self.min_pages):
            return f"not known to have {self.min_pages} pages"
        if self.max_pages is not None and (pages is None or pages > self.max_pages):
            return f"not known to have {self.max_pages} pages or fewer"
        return None

    def exclude(self, samples: Sequence[Sample], others: Sequence[Sample]) -> list[bool]:
        """Return which questions another set holds, or by document, which cite one that it asks
        about.
        """
        if self.unit is SplitUnit.DOCUMENT:
            held = frozenset[str]().union(*(other.document_keys for other in others))
            return [not held.isdisjoint(sample.document_keys) for sample in samples]
        keys = {unit_key(other, self.unit) for other in others}
        return [unit_key(sample, self.unit) in keys for sample in samples]

    def part(self, samples: Sequence[Sample]) -> tuple[dict[str, list[Sample]], list[Sample]]:
        """Return questions by part, each in the order of the file, and those that no part took.

        Units (questions about a document with one text, or documents and what is tied to them) are
        handed out in the order of `shuffled`: the choice does not depend on the order of rows. A
        unit is never cut: a part of whole documents may fall short of its size. A part named by a
        split is put into it.

        Raises:
            UserError: there are fewer questions than a part asks for.
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
    """Return the first units that fit into `most` questions."""
    chosen = []
    count = 0
    for key in queue:
        if count + sizes[key] <= most:
            chosen.append(key)
            count += sizes[key]
    return chosen
