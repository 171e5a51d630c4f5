"""Leakage between two sets of questions: shared documents, and nearly identical questions."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from docagent_rl.documents.store import DocumentStore
from docagent_rl.samples.sample import Sample

THRESHOLD = 90.0
"""The token-set similarity, 0 to 100, from which on questions count as alike."""
_BALANCE = 0.6
"""The ratio of word counts, shorter to longer question, below which questions are not compared."""
_CHUNK = 256
_LONG = 5


class Shared(StrEnum):
    """The reason why two documents count as the same."""

    ID = "id"
    """The same id, or windows of one document (`Sample.document_key`)."""
    FILE = "file"
    """Files with the same bytes."""


class SharedDocument(NamedTuple):
    """A document that both sets contain."""

    first: str
    second: str
    how: Shared


class AlikeQuestions(NamedTuple):
    """Two nearly identical questions."""

    first: Sample
    second: Sample
    score: float
    leaks: bool
    """True if one leaks the other: they share a document, or are long and share the answer.

    Many documents get the same short question ("What is the title?"), which alone leaks nothing.
    """


def find_leaks(
    first: Sequence[Sample], second: Sequence[Sample], *, store: DocumentStore | None = None
) -> tuple[list[SharedDocument], list[AlikeQuestions]]:
    """Return the documents and the questions that two sets share, leaking questions first.

    Documents are compared by id (windows of one document count as the same) and by the digest of
    their file (`extra.document_sha256`, or the store's). Questions are alike if their token-set
    similarity (`rapidfuzz.fuzz.token_set_ratio`, ignoring case and punctuation) reaches a
    threshold, unless one is much longer: it may then contain all words of the shorter one by
    chance. Comparing 100 million pairs of questions takes a minute and a half.
    """
    shared: dict[tuple[str, str], SharedDocument] = {}
    for each in _shared_documents(first, second, store):
        shared.setdefault((each.first, each.second), each)
    pairs = []
    for a, b, score in alike_pairs(first, second):
        long = len(question_words(a.question)) >= _LONG
        same_answer = answer_words(a) == answer_words(b) != frozenset()
        pairs.append(
            AlikeQuestions(a, b, score, (a.doc_id, b.doc_id) in shared or (same_answer and long))
        )
    pairs.sort(
        key=lambda pair: (
            not pair.leaks,
            -pair.score,
            pair.first.question_id,
            pair.second.question_id,
        )
    )
    return [shared[names] for names in sorted(shared)], pairs


def alike_pairs(
    first: Sequence[Sample], second: Sequence[Sample], threshold: float = THRESHOLD
) -> Iterator[tuple[Sample, Sample, float]]:
    """Yield pairs of questions of two sets that consist of the same words, with their
    similarity.
    """
    import numpy as np
    from rapidfuzz import fuzz, process

    if not first or not second:
        return
    ours = _by_text(first)
    theirs = _by_text(second)
    texts = list(ours)
    others = list(theirs)
    sizes = np.array([len(set(text.split())) for text in others])
    for start in range(0, len(texts), _CHUNK):
        chunk = texts[start : start + _CHUNK]
        scores = process.cdist(
            chunk, others, scorer=fuzz.token_set_ratio, score_cutoff=threshold, dtype=np.float32
        )
        for row, column in zip(*np.nonzero(scores), strict=True):
            size = len(set(chunk[row].split()))
            if min(size, sizes[column]) < _BALANCE * max(size, sizes[column]):
                continue
            for a in ours[chunk[row]]:
                for b in theirs[others[column]]:
                    yield a, b, float(scores[row, column])


def question_words(text: str) -> list[str]:
    """Return the words of a question, without case and punctuation."""
    from rapidfuzz.utils import default_process

    return default_process(text).split()


def answer_words(sample: Sample) -> frozenset[str]:
    """Return the answers of a question, without case and punctuation."""
    return frozenset(" ".join(question_words(answer)) for answer in sample.answers)


def _shared_documents(
    first: Sequence[Sample], second: Sequence[Sample], store: DocumentStore | None
) -> Iterator[SharedDocument]:
    """Yield the documents of both sets, some several times; only the first reason counts."""
    ours = _documents(first, store)
    theirs = _documents(second, store)
    by_digest = defaultdict(list)
    for name, digest in theirs.items():
        by_digest[digest].append(name)
    for name, digest in ours.items():
        if name in theirs:
            yield SharedDocument(name, name, Shared.ID)
        for other in by_digest[digest] if digest is not None else ():
            yield SharedDocument(name, other, Shared.FILE)
    parts = defaultdict(set)
    for sample in second:
        parts[sample.document_key].add(sample.doc_id)
    for sample in first:
        for part in parts.get(sample.document_key, ()):
            yield SharedDocument(sample.doc_id, part, Shared.ID)


def _documents(samples: Iterable[Sample], store: DocumentStore | None) -> dict[str, str | None]:
    """Return the documents that questions ask about or cite, with the digest of their file if
    known.
    """
    found: dict[str, str | None] = {}
    for sample in samples:
        digest = sample.extra.get("document_sha256")
        found[sample.doc_id] = digest if isinstance(digest, str) else found.get(sample.doc_id)
        for name, _ in sample.labelled_pages:
            found.setdefault(name, None)
    for name in found:
        if store is not None and name in store:
            found[name] = store.document(name).source.sha256
    return found


def _by_text(samples: Sequence[Sample]) -> dict[str, list[Sample]]:
    found = defaultdict(list)
    for sample in samples:
        found[" ".join(question_words(sample.question))].append(sample)
    return dict(found)
