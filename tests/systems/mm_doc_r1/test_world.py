"""The document of a question, and the index of its pages."""

from __future__ import annotations

import math

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.bm25 import BM25Settings
from docagent_rl.retrieval.tokens import Tokenizer
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.page_index import PageIndex
from docagent_rl.systems.mm_doc_r1.world import document_world

TEXTS = {
    1: "annual report cover page",
    2: "emission targets and emission results",
    3: "board of directors",
    4: "emission table for 2021 by plant and by region with targets",
}


@pytest.fixture
def world(report_store, report_question):
    def make(extra=None, **overrides):
        sample = report_question(extra=extra or {})
        return document_world(sample, report_store, MMDocConfig.for_variant(**overrides))

    return make


def test_the_whole_document(world):
    report = world()
    assert list(report.texts) == [1, 2, 3, 4, 5, 6]
    assert report.texts[6] == ""
    # the numbered headings of page 1 and those of the sections: the PDF has no bookmarks
    assert "2 Ferries \u2026 p.3" in report.toc.splitlines()
    assert report.figures == "Table 1. Ferries of Velmora by year \u2026 p.3"
    assert [hit.ref for hit in report.index.search("kantora", 5)] == [PageRef("R", 2)]
    bare = world(plan={"toc": False, "figures": False})
    assert (bare.toc, bare.figures, bare.headings) == ("none", "none", ())


def test_a_window_is_all_there_is(world):
    report = world({"window": [3, 5]})
    assert list(report.texts) == [3, 4, 5]
    assert report.index.search("kantora", 5) == []
    assert "p.2" not in report.toc
    # word statistics are those of the window
    assert world().index.search("teal", 5)[0].score > report.index.search("teal", 5)[0].score
    assert list(world({"window": [3, 5]}, window=False).texts) == [1, 2, 3, 4, 5, 6]
    assert list(world({"window": (6, 6)}).texts) == [6]


@pytest.mark.parametrize("window", [[0, 3], [3, 2], [1, 7], [1], "1-3", [1.0, 2.0]])
def test_windows_outside_the_document(world, window):
    with pytest.raises(UserError, match=r"'r1'.*extra\.window.*'R'"):
        world({"window": window})


def test_prepared_once(world):
    assert world() is world({"window": [1, 6]}) is world()
    assert world() is not world(plan={"toc": False})


def slow_scores(texts, query, k1, b):
    """BM25 word by word, with the factor k1 + 1 that Lucene leaves out and that changes no ranking."""
    pages = {page: Tokenizer()(text) for page, text in texts.items()}
    average = sum(map(len, pages.values())) / len(pages)
    scores = {}
    for page, tokens in pages.items():
        total = 0.0
        for word in Tokenizer()(query):
            df = sum(word in other for other in pages.values())
            idf = math.log(1 + (len(pages) - df + 0.5) / (df + 0.5))
            tf = tokens.count(word)
            total += idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(tokens) / average))
        scores[page] = total
    return scores


def test_the_example_of_mm_doc_r1():
    search = MMDocConfig.for_variant().search
    hits = PageIndex("d", TEXTS, BM25Settings(k1=search.k1, b=search.b)).search(
        "emission plant", search.top_k
    )
    assert [hit.ref for hit in hits] == [PageRef("d", 4), PageRef("d", 2)]
    assert [hit.score * 2.5 for hit in hits] == pytest.approx([1.3446, 1.0335], abs=5e-5)


@pytest.mark.parametrize("query", ["emission plant", "of by page", "emission emission board"])
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4)])
def test_scores_against_a_slow_version(query, k1, b):
    slow = {page: score for page, score in slow_scores(TEXTS, query, k1, b).items() if score}
    hits = PageIndex("d", TEXTS, BM25Settings(k1=k1, b=b)).search(query, 10)
    assert {hit.ref.page: hit.score * (k1 + 1) for hit in hits} == pytest.approx(slow, rel=1e-5)


def test_ties_and_limits():
    index = PageIndex("d", dict.fromkeys((7, 3, 5), "same words"))
    assert [hit.ref.page for hit in index.search("words", 2)] == [3, 5]
    with pytest.raises(UserError, match="top_k"):
        index.search("words", 0)


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        *((TEXTS, query) for query in ("", "absent", "\u2026")),
        *((texts, "word") for texts in ({}, {1: " ", 2: "\u2026"})),
    ],
)
def test_nothing_to_find(texts, query):
    assert PageIndex("d", texts).search(query, 10) == []
