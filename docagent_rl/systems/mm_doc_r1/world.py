"""A document prepared for MM-Doc-R1: page texts, contents, figures, a BM25 index, snippets."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cachetools

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.contents import (
    Heading,
    list_of_figures,
    render_contents,
    render_figures,
    shortened,
    table_of_contents,
)
from docagent_rl.envs.checks import played_pages, references
from docagent_rl.retrieval.base import Hit, check_queries, top_rows
from docagent_rl.retrieval.bm25_formula import BM25Settings, load_bm25s
from docagent_rl.retrieval.tokens import Stemmer, Tokenizer, readable, spans
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.mm_doc_r1.config import MIN_CHARS, MMDocConfig

if TYPE_CHECKING:
    import bm25s

    from docagent_rl.documents.store import Document, DocumentStore


_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


class PageIndex:
    """A small in-memory BM25 index over the pages of one document.

    `BM25Retriever` can search one document too, but weights words by the whole corpus; this index
    weights them by the document alone. The formula is the same
    (`docagent_rl.retrieval.bm25_formula`). Pages without an entry in `texts` cannot be found.
    """

    def __init__(
        self, doc_id: str, texts: Mapping[int, str], settings: BM25Settings | None = None
    ) -> None:
        bm25s = load_bm25s()
        settings = settings or BM25Settings(stemmer=Stemmer.NONE)
        self.tokenize = Tokenizer(settings.stemmer)
        """Returns the tokens of a page's or a query's text."""
        self._refs = [PageRef(doc_id, number) for number in sorted(texts)]
        vocabulary: dict[str, int] = {}
        pages = (self.tokenize(texts[ref.page]) for ref in self._refs)
        rows = [[vocabulary.setdefault(token, len(vocabulary)) for token in page] for page in pages]
        self._index: bm25s.BM25 | None = None
        # bm25s cannot build an index without words, as for a scanned document without text layer
        if vocabulary:
            self._index = bm25s.BM25(k1=settings.k1, b=settings.b, method="lucene", backend="numpy")
            self._index.index((rows, vocabulary), show_progress=False)

    def search(self, query: str, top_k: int) -> list[Hit]:
        """Return the best pages first, ties in page order; pages without a common word are left
        out.
        """
        check_queries([query], top_k)
        if self._index is None:
            return []
        ids = self._index.get_tokens_ids(self.tokenize(query))
        if not ids:
            return []
        scores = self._index.get_scores_from_ids(ids)
        return [Hit(self._refs[row], float(scores[row])) for row in top_rows(scores, top_k)]


@dataclass(frozen=True, slots=True)
class Snippet:
    """An extract on one line, with an ellipsis where text was left out.

    `words` is the number of distinct query words in the cluster around which it was cut.
    """

    text: str
    words: int


@dataclass(frozen=True, slots=True)
class _Cluster:
    start: int
    end: int
    words: int


def make_snippet(text: str, words: Collection[str], max_chars: int) -> Snippet:
    """Extract the part of a page around the densest cluster of query words (unstemmed tokens).

    The cluster is the run of matches that fits into the limit and contains the most distinct words;
    ties go to the one with the most matches, then the shortest, then the first. The extract is
    extended evenly on both sides to whole words, up to the limit of `max_chars` (at least
    `MIN_CHARS`), including ellipses. Without any match it is the beginning of the page.
    """
    if max_chars < MIN_CHARS:
        raise UserError(
            f"a snippet needs at least {MIN_CHARS} characters, found max_chars={max_chars}"
        )
    line = " ".join(readable(text).split())
    if len(line) <= max_chars:
        found = {token for _, _, token in spans(line)}
        return Snippet(line, len(found.intersection(words)))
    room = max_chars - 2 * len(_ELLIPSIS)
    cluster = _densest(line, frozenset(words), room)
    start, end = _window(line, cluster, room)
    inside = line[start:end].strip()
    head = _ELLIPSIS if start > 0 else ""
    tail = _ELLIPSIS if end < len(line) else ""
    return Snippet(f"{head}{inside}{tail}", cluster.words)


def _densest(line: str, words: frozenset[str], room: int) -> _Cluster:
    matches = [span for span in spans(line) if span[2] in words]
    best = _Cluster(0, 0, 0)
    rank = (0, 0, 0)
    held: Counter[str] = Counter()
    first = 0
    for last, (_, end, word) in enumerate(matches):
        held[word] += 1
        while matches[first][0] < end - room and first < last:
            gone = matches[first][2]
            held[gone] -= 1
            if not held[gone]:
                del held[gone]
            first += 1
        begin = matches[first][0]
        if (len(held), last - first + 1, begin - end) > rank or not rank[0]:
            best = _Cluster(begin, end, len(held))
            rank = (len(held), last - first + 1, begin - end)
    return best


def _window(line: str, cluster: _Cluster, room: int) -> tuple[int, int]:
    """Return a span of `room` characters centred on the cluster, shrunk to whole words."""
    middle = (cluster.start + cluster.end) // 2
    start = max(0, min(middle - room // 2, len(line) - room))
    # cut a word that is longer than the room rather than lose it
    start = min(start, cluster.start) if cluster.end - cluster.start <= room else cluster.start
    end = min(len(line), start + room)
    if start > 0:
        gap = line.find(" ", start, max(cluster.start, start) + 1)
        start = gap + 1 if gap >= 0 else start
    if end < len(line) and line[end] != " ":
        gap = line.rfind(" ", max(cluster.end, start + 1), end)
        end = gap if gap >= 0 else end
    return start, end


_KEPT_WORLDS = 32


@dataclass(frozen=True, slots=True)
class DocumentWorld:
    """A prepared document, read-only and shared by all trajectories of a process.

    `texts` are its page texts by 1-based number; only these pages exist in the trajectory. `toc`
    and `figures` are the lists as text, with a last line that says how many entries did not fit, or
    `none` if the planner must not see them.
    """

    document: Document
    texts: Mapping[int, str]
    headings: tuple[Heading, ...]
    toc: str
    figures: str
    index: PageIndex


_worlds: cachetools.LRUCache[tuple, DocumentWorld] = cachetools.LRUCache(_KEPT_WORLDS)
_lock = threading.Lock()


def document_world(sample: Sample, store: DocumentStore, config: MMDocConfig) -> DocumentWorld:
    """Return the prepared document of a question, cached by its page texts; the call blocks."""
    document, pages = played_pages(sample, store)
    # the store is part of the key, because page images come from the cached document
    key = (
        str(store.path),
        sample.doc_id,
        tuple((n, document.page(n).text_hash, document.page(n).image_hash) for n in pages),
        config.plan.model_dump_json(),
        config.search.k1,
        config.search.b,
    )
    # hold the lock while preparing: the trajectories of a group start together and would all do
    # the same work
    with _lock:
        if key not in _worlds:
            _worlds[key] = _prepared(document, pages, config)
        return _worlds[key]


def check_question(
    sample: Sample, store: DocumentStore, config: MMDocConfig, validate: bool
) -> None:
    """Raise a `UserError` if a question cannot be played or scored; the document is not
    prepared.
    """
    played_pages(sample, store)
    references(sample)


def blank_world(sample: Sample, store: DocumentStore, config: MMDocConfig) -> DocumentWorld:
    """Return a question's document with blank pages, without reading any page."""
    document, pages = played_pages(sample, store)
    texts = dict.fromkeys(pages, "")
    index = PageIndex(document.doc_id, {})
    return DocumentWorld(document, texts, (), render_contents(()), render_figures(()), index)


def _prepared(document: Document, pages: range, config: MMDocConfig) -> DocumentWorld:
    plan = config.plan
    search = config.search
    texts = {number: document.page(number).text() for number in pages}
    everything = (
        table_of_contents(document.outline, texts, max_title=plan.max_title_chars)
        if plan.toc
        else ()
    )
    headings = shortened(everything, plan.max_headings)
    captions = list_of_figures(texts, max_caption=plan.max_caption_chars) if plan.figures else ()
    figures = captions[: plan.max_figures]
    return DocumentWorld(
        document=document,
        texts=texts,
        headings=headings,
        toc=render_contents(headings, omitted=len(everything) - len(headings)),
        figures=render_figures(figures, omitted=len(captions) - len(figures)),
        index=PageIndex(
            document.doc_id, texts, BM25Settings(k1=search.k1, b=search.b, stemmer=Stemmer.NONE)
        ),
    )
