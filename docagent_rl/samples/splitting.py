"""Parts of a set of questions for training and validation."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Sequence
from enum import StrEnum

from docagent_rl.base.errors import UserError
from docagent_rl.samples.sample import Sample, Split

UnitKey = tuple[str, ...]


class SplitUnit(StrEnum):
    """The questions that stay together."""

    QUESTION = "question"
    """One question about one document, however often it is written down."""
    DOCUMENT = "document"
    """All questions about a document: validation then asks about documents that were never trained on."""


def split_samples(
    samples: Sequence[Sample], fraction: float, *, seed: int = 0, unit: SplitUnit = SplitUnit.QUESTION
) -> tuple[list[Sample], list[Sample]]:
    """Set a fraction of the questions aside for validation.

    Questions (or documents) are ordered by a hash of seed and text, and the first ones set aside: the choice
    does not depend on the order of lines, and mostly stays when questions are added. White space, case and a
    final mark aside, no question about a document is in both parts.

    Args:
        samples: all in the split `train`.
        fraction: of the questions, or of the documents, in (0, 1); at least one is set aside, and not all.
        seed: decides the choice.
        unit: the questions that stay together.

    Returns:
        The questions to train on and those set aside, in their order.

    Raises:
        UserError: the fraction is out of range, a question is in another split, or there is but one unit.
    """
    if not 0 < fraction < 1:
        raise UserError(f"--split {fraction:g}: a fraction must lie between 0 and 1")
    if other := [sample for sample in samples if sample.split is not Split.TRAIN]:
        raise UserError(
            f"question {other[0].question_id!r} says that it is in the split {other[0].split.value!r}: "
            "convert each split by name (--split train, --split val), or take the field 'split' out"
        )
    keys = unit_keys(samples, unit)
    units = set(keys)
    if len(units) < 2:
        raise UserError(f"--split {fraction:g}: there is one {unit.value}, and each part needs one")
    aside = set(shuffled(units, seed)[: min(max(round(fraction * len(units)), 1), len(units) - 1)])
    keyed = list(zip(samples, keys, strict=True))
    train = [sample for sample, key in keyed if key not in aside]
    val = [dataclasses.replace(sample, split=Split.VAL) for sample, key in keyed if key in aside]
    return train, val


def shuffled(units: Iterable[UnitKey], seed: int) -> list[UnitKey]:
    """Return units in the order of a hash of seed and key, which does not depend on their order."""
    return sorted(units, key=lambda key: hashlib.sha256(repr((seed, key)).encode()).digest())


def unit_keys(samples: Sequence[Sample], unit: SplitUnit) -> list[UnitKey]:
    """Return `unit_key` of each question; by document, those that cite pages of one document have one key.

    A question over two documents ties all questions about either: parts that kept them apart would share a
    document.
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
    """Return the key that questions that stay together share: the document, and by question its text as well.

    Windows of one document (`Sample.document_key`) stay together.
    """
    if unit is SplitUnit.DOCUMENT:
        return (sample.document_key,)
    return sample.document_key, " ".join(sample.question.casefold().split()).rstrip("?!. ")
