from __future__ import annotations

import math

import pytest

from docagent_rl.documents import PageRef
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Settings
from docagent_rl.retrieval.tokens import Tokenizer
from docagent_rl.systems.mm_doc_r1.page_index import PageIndex

TEXTS = {
    1: "annual report cover page",
    2: "emission targets and emission results",
    3: "board of directors",
    4: "emission table for 2021 by plant and by region with targets",
}


def slow_scores(texts, query, k1=1.5, b=0.75):
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
    hits = PageIndex("d", TEXTS).search("emission plant", 10)
    assert [hit.ref for hit in hits] == [PageRef("d", 4), PageRef("d", 2)]
    assert [hit.score * 2.5 for hit in hits] == pytest.approx([1.3446, 1.0335], abs=5e-5)


@pytest.mark.parametrize("query", ["emission plant", "targets", "of by page", "emission emission board"])
@pytest.mark.parametrize(("k1", "b"), [(1.5, 0.75), (0.9, 0.4)])
def test_against_a_slow_version(query, k1, b):
    slow = slow_scores(TEXTS, query, k1, b)
    hits = PageIndex("d", TEXTS, BM25Settings(k1=k1, b=b)).search(query, 10)
    assert {hit.ref.page: hit.score * (k1 + 1) for hit in hits} == pytest.approx(
        {page: score for page, score in slow.items() if score}, rel=1e-5
    )


def test_ties_and_limits():
    index = PageIndex("d", dict.fromkeys((7, 3, 5), "same words"))
    assert [hit.ref.page for hit in index.search("words", 2)] == [3, 5]
    with pytest.raises(UserError, match="top_k"):
        index.search("words", 0)


@pytest.mark.parametrize("query", ["", "  ", "absent", "\u2026"])
def test_nothing_to_find(query):
    assert PageIndex("d", TEXTS).search(query, 10) == []


@pytest.mark.parametrize("texts", [{}, {1: ""}, {1: " ", 2: "\u2026"}])
def test_documents_without_words(texts):
    assert PageIndex("d", texts).search("word", 10) == []
