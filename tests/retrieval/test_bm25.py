import logging
import math
import os
import re
import subprocess
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from reportlab.pdfgen.canvas import Canvas

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.documents.contents import Heading
from docagent_rl.documents.store import DocumentStore, PageContent
from docagent_rl.retrieval.base import PageRows, check_queries, top_rows
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings, indexed_texts, page_headings
from docagent_rl.retrieval.tokens import Stemmer, Tokenizer
from tests.documents.here import ingest_here

PARAMETERS = [(1.5, 0.75), (0.9, 0.4), (0.0, 0.0), (3.0, 1.0)]


def plain(**settings_: float) -> BM25Settings:
    return BM25Settings(stemmer=Stemmer.NONE, **settings_)


@pytest.fixture(scope="module")
def by_parameters(store) -> dict[tuple[float, float], BM25Retriever]:
    return {(k1, b): BM25Retriever.build(store, settings=plain(k1=k1, b=b)) for k1, b in PARAMETERS}


def slow_bm25(pages: dict[str, list[str]], query: str, k1: float, b: float) -> dict[PageRef, float]:
    """Return scores of Lucene's BM25, computed directly from its formula in float64."""
    split = re.compile(r"\w+").findall
    # behind the title, which is the document's id here; a page without text has none
    rows = {
        PageRef(d, n): split(f"{d} {text}" if text else "")
        for d, texts in pages.items()
        for n, text in enumerate(texts, start=1)
    }
    average = sum(map(len, rows.values())) / len(rows)
    scores = dict.fromkeys(rows, 0.0)
    for token in split(query):
        df = sum(token in words for words in rows.values())
        idf = math.log(1 + (len(rows) - df + 0.5) / (df + 0.5))
        for ref, words in rows.items():
            if not (tf := Counter(words)[token]):
                continue
            scores[ref] += idf * tf / (k1 * (1 - b + b * len(words) / average) + tf)
    return scores


def test_a_score_by_hand(make_store, tmp_path):
    """Three pages have 3, 5 and 4 tokens with the title `a`, and `cat` is on two: idf = ln(1 + 1.5
    / 2.5).
    """
    store = make_store(tmp_path, {"a": ["cat dog", "cat cat bird fish", "no such thing"]})
    (hits,) = BM25Retriever.build(store, settings=plain(k1=2.0, b=0.6)).search(["cat"], top_k=5)
    idf = math.log(1.6)
    first = idf * 2 / (2.0 * (0.4 + 0.6 * 5 / 4) + 2)
    second = idf * 1 / (2.0 * (0.4 + 0.6 * 3 / 4) + 1)
    assert [str(hit.ref) for hit in hits] == ["a#2", "a#1"]
    assert type(hits[0].ref.page) is int
    assert [hit.score for hit in hits] == pytest.approx([first, second], rel=1e-6)


def test_batches_and_threads_get_the_answers_of_single_queries_in_order(bm25):
    queries = ["cat", "", "grow", " \n", "…"] * 8
    alone = [bm25.search([query], top_k=3)[0] for query in queries]
    assert bm25.search(queries, top_k=3) == alone
    assert [bool(hits) for hits in alone[:5]] == [True, False, True, False, False]
    assert bm25.search([], top_k=3) == []
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: bm25.search([query], top_k=3)[0], queries)) == alone


WORDS = ["cat", "the", "grow", "birds", "table", "3", "zebra", "and", "items"]
DOCS = [None, "animals", "b.plants", "numbers"]
REFS = [
    PageRef(d, n)
    for d, k in (("animals", 4), ("b.plants", 3), ("numbers", 3))
    for n in range(1, k + 1)
]


@settings(max_examples=60)
@given(
    st.sampled_from(PARAMETERS),
    st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join),
    st.sampled_from(DOCS),
    st.integers(1, 12),
    st.sets(st.sampled_from([*REFS, PageRef("nowhere", 1), PageRef("animals", 99)])),
)
def test_any_search_is_the_best_of_what_is_left(
    by_parameters, pages, parameters, query, doc_id, top_k, exclude
):
    """Scores equal the formula's, pages with equal scores are in order, and pages without a term of
    the query are not hits.
    """
    (hits,) = by_parameters[parameters].search([query], doc_id=doc_id, top_k=top_k, exclude=exclude)
    scores = slow_bm25(pages, query, *parameters)
    left = {
        r for r, s in scores.items() if s > 0 and r not in exclude and doc_id in (None, r.doc_id)
    }
    assert len(hits) == min(top_k, len(left))
    assert {hit.ref for hit in hits} <= left
    assert [hit.score for hit in hits] == pytest.approx([scores[hit.ref] for hit in hits], rel=1e-5)
    assert [(-hit.score, hit.ref) for hit in hits] == sorted((-hit.score, hit.ref) for hit in hits)
    worst = min((hit.score for hit in hits), default=math.inf)
    assert all(scores[ref] <= worst + 1e-5 for ref in left - {hit.ref for hit in hits})


def test_a_changed_store_is_noticed(make_store, tmp_path):
    store = make_store(tmp_path, {"a": ["one"], "b": ["two"]})
    retriever = BM25Retriever.build(store)
    retriever.check(store)
    # other rasters, same texts: the index still holds
    ingest_here(tmp_path / "inbox", store.path, dpi=12)
    retriever.check(DocumentStore(store.path))
    (tmp_path / "inbox" / "b.pdf").write_bytes((tmp_path / "inbox" / "a.pdf").read_bytes())
    ingest_here(tmp_path / "inbox", store.path, dpi=12)
    with pytest.raises(UserError):
        retriever.check(DocumentStore(store.path))


def test_jax_is_not_imported_where_it_is_installed(tmp_path):
    for file in ("jax/__init__.py", "jax/lax.py"):
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text("raise MemoryError('three quarters of the GPU are gone')\n")
    script = (
        "import sys\nfrom docagent_rl.retrieval.bm25_formula import load_bm25s\n"
        "load_bm25s().BM25\nassert 'jax' not in sys.modules"
    )
    paths = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


def test_an_index_is_built_without_a_line_of_the_library(store, capsys, monkeypatch):
    """Nothing is logged even if the root logger has a handler that writes everything, as after
    importing verl.
    """
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler()])
    BM25Retriever.build(store)
    assert not capsys.readouterr().err.strip()


def test_pages_and_rows_are_each_others():
    rows = PageRows(["a", "b"], [2, 3])
    refs = [PageRef("a", 1), PageRef("a", 2), PageRef("b", 1), PageRef("b", 2), PageRef("b", 3)]
    assert [rows.ref(row) for row in range(len(rows))] == refs
    assert rows.rows(refs).tolist() == [0, 1, 2, 3, 4]
    assert (rows.span("b"), rows.span(None)) == ((2, 5), (0, 5))
    # unknown pages have no row
    assert rows.rows([PageRef("a", 3), PageRef("z", 1), PageRef("a", 2)]).tolist() == [1]
    with pytest.raises(UserError, match="'z'"):
        rows.span("z")


@settings(max_examples=60)
@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 1.5]), max_size=40), st.integers(1, 50))
def test_the_best_rows_are_those_of_a_full_sort(scores, top_k):
    ranked = [
        row for score, row in sorted((-score, row) for row, score in enumerate(scores) if score > 0)
    ]
    assert top_rows(np.array(scores, dtype=np.float32), top_k).tolist() == ranked[:top_k]
    below = [row for score, row in sorted((-score, row) for row, score in enumerate(scores))]
    assert top_rows(np.array(scores, dtype=np.float32), top_k, -np.inf).tolist() == below[:top_k]


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_the_scores_of_some_rows_are_those_of_the_library(bm25, data):
    tokens = st.integers(0, len(bm25._index.scores["indptr"]) - 2)
    ids = data.draw(st.lists(tokens, min_size=1, max_size=9))
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, bm25.num_pages)] * 2)))
    assert (
        bm25._scores(ids, start, end).tobytes()
        == bm25._index.get_scores_from_ids(ids)[start:end].tobytes()
    )


def test_bad_arguments_are_refused(bm25, make_store, tmp_path):
    with pytest.raises(UserError, match=r"'plants'.*'b\.plants'"):
        bm25.search(["cat"], doc_id="plants", top_k=1)
    with pytest.raises(UserError):
        BM25Retriever.build(make_store(tmp_path, {"a": ["", ""]}))
    for top_k in (0, 1.5, True, None):
        with pytest.raises(UserError, match="top_k"):
            check_queries(["a"], top_k)
    for queries in ("one query", [b"bytes"], [None]):
        with pytest.raises(TypeError):
            check_queries(queries, 1)


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cat, the CAT!", ["the", "cat", "the", "cat"]),
        ("Table 3: 42.5 %", ["table", "3", "42", "5"]),
        ("Größe naïve Ünïcode", ["grosse", "naive", "unicode"]),
        ("\N{LATIN SMALL LIGATURE FI}gure \N{FULLWIDTH DIGIT ONE}", ["figure", "1"]),
        (
            "co\N{SOFT HYPHEN}ope\N{ZERO WIDTH SPACE}rate"
            "\N{VARIATION SELECTOR-16}\N{HANGUL FILLER}",
            ["cooperate"],
        ),
        (
            "\N{CIRCLED LATIN SMALL LETTER A}e\N{COMBINING ACUTE ACCENT}\x01 \ue000STRASSE",
            ["ae", "strasse"],
        ),
        ("\u0e2b\u0e19\u0e35\u0e49 \u0e2b\u0e19\u0e35", ["\u0e2b", "\u0e19"] * 2),
        ("维护 Debian 软件", ["维", "护", "debian", "软", "件"]),
        ("テスト2回", ["テ", "ス", "ト", "2", "回"]),
        (" \n\t … —", []),
    ],
)
def test_tokens(text, tokens):
    assert Tokenizer()(text) == tokens
    assert Tokenizer(Stemmer.ENGLISH)("Connected connections, running") == [
        "connect",
        "connect",
        "run",
    ]


# -- titles and headings, in indexes alone

HEADINGS = [
    Heading(1, "Rivers", 1),
    Heading(2, "1.1 The north", 1),
    Heading(2, "The South", 3),
    Heading(1, "Lost", 3),
]
TEXTS = {
    1: "Rivers\nwords of the north\n1.1 The\nnorth",
    2: "more",
    3: "end. In the south\n1.2 The south\nlast",
}


def test_headings_go_on_over_pages_until_the_next():
    first, second, third = page_headings(HEADINGS, TEXTS)
    assert first == second == ["Rivers", "1.1 The north"]
    assert third == ["Rivers", "1.1 The north", "The South", "Lost"]


def test_a_page_that_begins_with_a_heading_stands_under_no_earlier_one():
    headings = [Heading(1, "Rivers", 1), Heading(1, "2 Lakes", 2)]
    for text, expected in (
        ("\n2. lakes\nare still", ["2 Lakes"]),
        ("and so on\n2 Lakes", ["Rivers", "2 Lakes"]),
        ("it has no name here", ["2 Lakes"]),
    ):
        assert list(page_headings(headings, {1: "Rivers", 2: text})) == [["Rivers"], expected]


@pytest.fixture(scope="module")
def atlas(tmp_path_factory):
    """Return three pages; a bookmark of the first covers the second, too, and the third has no
    text.
    """
    folder = tmp_path_factory.mktemp("atlas")
    (folder / "inbox").mkdir()
    canvas = Canvas(str(folder / "inbox" / "x.pdf"), pagesize=(300, 300))
    canvas.setTitle("Atlas of waters")
    for text in ("Glaciers begin here", "it melts in June", ""):
        if text.startswith("Glaciers"):
            for level, name in enumerate(("Alps", "Glaciers", "Ice")):
                canvas.bookmarkPage(name)
                canvas.addOutlineEntry(name, name, level)
        canvas.drawString(20, 200, text)
        canvas.showPage()
    canvas.save()
    ingest_here(folder / "inbox", folder / "store", dpi=10)
    return DocumentStore(folder / "store")


def test_a_page_is_found_by_its_heading_and_title_and_its_text_stays(atlas):
    index = BM25Retriever.build(atlas)
    for query in ("glacier", "waters"):
        (hits,) = index.search([query], top_k=5)
        assert {hit.ref.page for hit in hits} == {1, 2}
    assert atlas.page(PageRef("x", 2)).text() == "it melts in June"
    titled = "Atlas of waters\nAlps\nGlaciers\nIce\nit melts in June"
    assert list(indexed_texts(atlas.document("x")))[1:] == [titled, ""]


def test_what_indexes_of_texts_are_made_of_is_the_title_and_headings_too(atlas, monkeypatch):
    document = atlas.document("x")
    before = {content: document.digests(content) for content in PageContent}
    monkeypatch.setattr(document, "title", "Another")
    assert document.digests(PageContent.TEXT) != before[PageContent.TEXT]
    assert document.digests(PageContent.IMAGE) == before[PageContent.IMAGE]
