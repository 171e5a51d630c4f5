"""Overlap of two sets of questions: documents by id and content, and questions that say the
same.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import NamedTuple

from docagent_rl.documents.store import DocumentStore
from docagent_rl.samples.sample import Sample

THRESHOLD = 90.0
"""Token-set similarity from which questions are alike, 0 to 100."""
_BALANCE = 0.6
"""Words of the shorter question, of the longer one's, from which they are compared."""
_CHUNK = 256
_LONG = 5


class Shared(StrEnum):
    """The evidence that two documents are the same."""

    ID = "id"
    """One id, or windows of one document (`Sample.document_key`)."""
    FILE = "file"
    """Equal bytes."""


class SharedDocument(NamedTuple):
    """A document of both sets."""

    first: str
    second: str
    how: Shared


class AlikeQuestions(NamedTuple):
    """Two questions that are nearly the same."""

    first: Sample
    second: Sample
    score: float
    leaks: bool
    """One gives the other away: one document, or one answer to a question of some length.

    Many documents are asked the same question ("What is the title?"): that alone gives nothing
    away.
    """


def find_leaks(
    first: Sequence[Sample], second: Sequence[Sample], *, store: DocumentStore | None = None
) -> tuple[list[SharedDocument], list[AlikeQuestions]]:
    """Return the documents and the questions that two sets share, of these the leaking ones first.

    Documents are the same by id (windows of one document, too) and by the digest of their file
    (`extra.document_sha256`, or the store's). Questions are alike from a token-set similarity on
    (`rapidfuzz.fuzz.token_set_ratio`, case and punctuation aside), unless one is much longer: the
    shorter one's words may then all be in it by chance. 100 million pairs of questions take a
    minute and a half.
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
    """Yield questions of two sets that are made of the same words, with their similarity."""
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
    """Yield documents of both sets, some of them several times: the first reason counts."""
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
    """Return the documents that questions are about or cite, with the digest of their file where
    known.
    """
    found: dict[str, str | None] = {}
    for sample in samples:
        digest = sample.extra.get("document_sha256")
        found[sample.doc_id] = digest if isinstance(digest, str) else found.get(sample.doc_id)
        for name, _ in sample.gold_pages:
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
