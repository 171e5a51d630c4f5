"""What two sets of questions share: documents by id and content, and questions that say the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from rich.console import Console
from rich.progress import track

from docagent_rl.documents import DocumentStore
from docagent_rl.records.record import Record

THRESHOLD = 90.0
"""Token-set similarity from which questions are alike, 0 to 100."""
SHARE = 0.5
"""Pages in common, of the shorter document, from which documents are the same."""
_BALANCE = 0.6
_CHUNK = 256
_LONG = 5


class Shared(StrEnum):
    """How two documents are known to be the same."""

    ID = "id"
    """One id, or windows of one document (`Record.document_key`)."""
    FILE = "file"
    """Equal bytes."""
    PAGES = "pages"
    """Half of the pages or more look or read the same."""


@dataclass(frozen=True, slots=True)
class SharedDocument:
    """A document of both sets."""

    first: str
    second: str
    how: Shared
    share: float
    """Pages in common, of the shorter one."""


@dataclass(frozen=True, slots=True)
class AlikeQuestions:
    """Two questions that are nearly the same."""

    first: Record
    second: Record
    score: float
    same_document: bool
    same_answer: bool

    @property
    def leaks(self) -> bool:
        """Whether who learned one knows the other: one document, or one answer to a question of some length.

        Many documents are asked the same question ("What is the title?"): that alone gives nothing away.
        """
        return self.same_document or (self.same_answer and len(question_words(self.first.question)) >= _LONG)


@dataclass(slots=True)
class LeakReport:
    """What two sets share."""

    documents: list[SharedDocument] = field(default_factory=list)
    questions: list[AlikeQuestions] = field(default_factory=list)

    @property
    def leaking(self) -> list[AlikeQuestions]:
        """Questions that give each other away."""
        return [pair for pair in self.questions if pair.leaks]


def find_leaks(
    first: Sequence[Record],
    second: Sequence[Record],
    *,
    store: DocumentStore | None = None,
    threshold: float = THRESHOLD,
    progress: bool = False,
) -> LeakReport:
    """Compare two sets.

    Documents are the same by id (windows of one document, too), by the digest of their file
    (`extra.document_sha256`, or the store's), and with a store by their pages. Questions are alike from a
    token-set similarity on (`rapidfuzz.fuzz.token_set_ratio`, case and punctuation aside), unless one is much
    longer: the shorter one's words may then all be in it by chance.

    Args:
        first: questions.
        second: other questions.
        store: holds their documents, for the comparison of pages.
        threshold: similarity from which questions are alike, 0 to 100.
        progress: show a bar on standard error: 100 million pairs of questions take a minute and a half.
    """
    shared = _shared_documents(_documents(first, store), _documents(second, store), store)
    shared += _windows(first, second, shared)
    same = {(each.first, each.second) for each in shared}
    pairs = [
        AlikeQuestions(a, b, score, (a.doc_id, b.doc_id) in same, _answers(a) == _answers(b) != frozenset())
        for a, b, score in alike_pairs(first, second, threshold, progress=progress)
    ]
    pairs.sort(
        key=lambda pair: (not pair.leaks, -pair.score, pair.first.question_id, pair.second.question_id)
    )
    return LeakReport(sorted(shared, key=lambda each: (each.first, each.second)), pairs)


def alike_pairs(
    first: Sequence[Record], second: Sequence[Record], threshold: float = THRESHOLD, *, progress: bool = False
) -> Iterable[tuple[Record, Record, float]]:
    """Questions of two sets that are made of the same words, with their similarity; see `find_leaks`."""
    import numpy as np
    from rapidfuzz import fuzz, process

    if not first or not second:
        return
    ours, theirs = _by_text(first), _by_text(second)
    texts, others = list(ours), list(theirs)
    sizes = np.array([len(set(text.split())) for text in others])
    starts = range(0, len(texts), _CHUNK)
    for start in track(
        starts, "Comparing questions", console=Console(stderr=True), disable=not progress, transient=True
    ):
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


def open_store(path: Path | None) -> DocumentStore | None:
    """The store, without pictures in memory."""
    return None if path is None else DocumentStore(path, image_cache=0)


def _documents(records: Iterable[Record], store: DocumentStore | None) -> dict[str, str | None]:
    """Documents that questions are about or cite, with the digest of their file where it is known."""
    found: dict[str, str | None] = {}
    for record in records:
        digest = record.extra.get("document_sha256")
        found[record.doc_id] = digest if isinstance(digest, str) else found.get(record.doc_id)
        for name, _ in record.gold_pages:
            found.setdefault(name, None)
    for name in found:
        if store is not None and name in store:
            found[name] = store.document(name).source.sha256
    return found


def _shared_documents(
    first: Mapping[str, str | None], second: Mapping[str, str | None], store: DocumentStore | None
) -> list[SharedDocument]:
    found = {(name, name): SharedDocument(name, name, Shared.ID, 1.0) for name in first if name in second}
    by_digest = defaultdict(list)
    for name, digest in second.items():
        if digest is not None:
            by_digest[digest].append(name)
    for name, digest in first.items():
        for other in by_digest.get(digest, ()) if digest is not None else ():
            found.setdefault((name, other), SharedDocument(name, other, Shared.FILE, 1.0))
    if store is not None:
        for each in _shared_pages(first, second, store):
            found.setdefault((each.first, each.second), each)
    return list(found.values())


def _windows(
    first: Iterable[Record], second: Iterable[Record], known: Iterable[SharedDocument]
) -> list[SharedDocument]:
    """Documents that are parts of one document, and are not known to be the same otherwise."""
    known_pairs = {(each.first, each.second) for each in known}
    parts = defaultdict(set)
    for record in second:
        parts[record.document_key].add(record.doc_id)
    pairs = {(record.doc_id, part) for record in first for part in parts.get(record.document_key, ())}
    return [SharedDocument(name, other, Shared.ID, 1.0) for name, other in sorted(pairs - known_pairs)]


def _shared_pages(
    first: Iterable[str], second: Iterable[str], store: DocumentStore
) -> Iterable[SharedDocument]:
    ours = {name: _pages(store, name) for name in first if name in store}
    theirs = {name: _pages(store, name) for name in second if name in store}
    holders = defaultdict(list)
    for name, pages in theirs.items():
        for page in pages:
            holders[page].append(name)
    for name, pages in ours.items():
        common = Counter(other for page in pages for other in holders.get(page, ()))
        for other, count in common.items():
            share = count / min(len(pages), len(theirs[other]))
            if share >= SHARE:
                yield SharedDocument(name, other, Shared.PAGES, share)


def _pages(store: DocumentStore, doc_id: str) -> frozenset[str]:
    """What pages say, or look like where they say nothing."""
    document = store.document(doc_id)
    pages = (document.page(number) for number in range(1, document.num_pages + 1))
    return frozenset(page.text_hash or page.image_hash for page in pages)


def _by_text(records: Sequence[Record]) -> dict[str, list[Record]]:
    found = defaultdict(list)
    for record in records:
        found[" ".join(question_words(record.question))].append(record)
    return dict(found)


def question_words(text: str) -> list[str]:
    """The words of a question, without case and punctuation."""
    from rapidfuzz.utils import default_process

    return default_process(text).split()


def _answers(record: Record) -> frozenset[str]:
    return frozenset(" ".join(question_words(answer)) for answer in record.answers)
