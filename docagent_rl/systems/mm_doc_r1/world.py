"""A document as MM-Doc-R1 plays it: page texts, contents, figures and a search index."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

import cachetools

from docagent_rl.documents import Document, DocumentStore
from docagent_rl.documents.contents import (
    Heading,
    list_of_figures,
    render_contents,
    render_figures,
    shortened,
    table_of_contents,
)
from docagent_rl.envs.checks import played_pages, references, require_document
from docagent_rl.retrieval.bm25 import BM25Settings
from docagent_rl.samples.sample import Sample
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.page_index import PageIndex

_KEPT_WORLDS = 32


@dataclass(frozen=True, slots=True)
class DocumentWorld:
    """A prepared document. Read-only, shared by all trajectories of a process.

    Args:
        document: the document in its store.
        texts: text of its pages by 1-based number; only these pages exist in the trajectory.
        headings: its table of contents.
        toc: the same as text, with a last line that says how many did not fit; the word `none` when the
            planner is not to see it.
        figures: the list of figures as text, likewise.
        index: for searching it.
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
    """Return the world of a question's document, prepared once a process for equal page texts. Blocks.

    Raises:
        UserError: the document is not in the store, or the sample's window does not lie in it; the message
            names the question.
    """
    require_document(sample, sample.doc_id, store)
    document = store.document(sample.doc_id)
    pages = played_pages(sample, document.num_pages, use_window=config.window)
    # the store is part of the key: page images are cut from the document that is kept
    key = (
        str(store.path),
        sample.doc_id,
        tuple((n, document.page(n).text_hash, document.page(n).image_hash) for n in pages),
        config.plan.model_dump_json(),
        config.search.k1,
        config.search.b,
    )
    # held while preparing: the trajectories of a group start together and would all do the same work
    with _lock:
        if key not in _worlds:
            _worlds[key] = _prepared(document, pages, config)
        return _worlds[key]


def check_sample(sample: Sample, store: DocumentStore, config: MMDocConfig, validate: bool) -> None:
    """Check that a question can be played, without preparing its document.

    Raises:
        UserError: the document is not in the store, the window does not lie in it, or nothing tells a right
            answer from a wrong one; the message names the question.
    """
    require_document(sample, sample.doc_id, store)
    played_pages(sample, store.document(sample.doc_id).num_pages, use_window=config.window)
    references(sample)


def blank_world(sample: Sample, store: DocumentStore, config: MMDocConfig) -> DocumentWorld:
    """Return the world of a question's document with blank pages: its page numbers, without reading a page.

    Raises:
        UserError: as of `document_world`.
    """
    require_document(sample, sample.doc_id, store)
    document = store.document(sample.doc_id)
    texts = dict.fromkeys(played_pages(sample, document.num_pages, use_window=config.window), "")
    index = PageIndex(document.doc_id, {})
    return DocumentWorld(document, texts, (), render_contents(()), render_figures(()), index)


def _prepared(document: Document, pages: range, config: MMDocConfig) -> DocumentWorld:
    plan, search = config.plan, config.search
    texts = {number: document.page(number).text() for number in pages}
    lines = {number: document.page(number).lines() for number in pages}
    everything = (
        table_of_contents(document.outline, texts, typography=lines, max_title=plan.max_title_chars)
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
        index=PageIndex(document.doc_id, texts, BM25Settings(k1=search.k1, b=search.b)),
    )
