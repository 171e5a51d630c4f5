"""The document of a question, and the index of its pages."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docagent_rl.documents import PageRef
from docagent_rl.retrieval.tokens import readable, spans
from docagent_rl.systems.mm_doc_r1.config import MMDocConfig
from docagent_rl.systems.mm_doc_r1.world import PageIndex, document_world, make_snippet


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
    assert list(world({"window": (6, 6)}).texts) == [6]


def test_prepared_once(world):
    assert world() is world({"window": [1, 6]}) is world()
    assert world() is not world(plan={"toc": False})


@pytest.mark.parametrize(
    ("texts", "query"),
    [
        ({1: "annual report"}, "absent"),
        ({1: "annual report"}, "\u2026"),
        ({}, "word"),
        ({1: " "}, "word"),
    ],
)
def test_nothing_to_find(texts, query):
    assert PageIndex("d", texts).search(query, 10) == []


FILLER = "lorem ipsum dolor sit amet " * 30
HAN = "\u6587" * 200


@pytest.mark.parametrize(
    ("text", "words", "limit", "shown", "count"),
    [
        # the densest cluster, in which distinct words count for more than repetitions
        (f"emission {FILLER} plant {FILLER} the emission of the plant in 2021 {FILLER} emission",
         ["emission", "plant"], 60, "emission of the plant in 2021", 2),
        (f"tax tax tax tax tax {FILLER} tax rate {FILLER}", ["tax", "rate"], 40, "tax rate", 2),
        # without a match the beginning; first and last words
        (FILLER, ["needle"], 40, "lorem ipsum dolor", 0),
        (f"needle {FILLER}", ["needle"], 40, "needle lorem", 1),
        (f"{FILLER}needle", ["needle"], 40, "amet needle", 1),
        # tokens, not substrings; scripts without spaces
        (f"{FILLER} needles {FILLER} needle {FILLER}", ["needle"], 40, " needle ", 1),
        (f"{HAN}\u6392\u653e{HAN}", ["\u6392", "\u653e"], 40, "\u6392\u653e", 2),
        ("  a\n short\tpage ", ["short", "page", "x"], 40, "a short page", 2),
        ("", ["short"], 40, "", 0),
        # a reader that is not linear in the length would take minutes
        ("needle " * 20_000, ["needle"], 240, "needle needle", 1),
    ],
    ids=range(10),
)  # fmt: skip
def test_what_is_shown(text, words, limit, shown, count):
    snippet = make_snippet(text, words, limit)
    assert shown in snippet.text
    assert snippet.words == count
    assert len(snippet.text) <= limit
    line = " ".join(text.split())
    assert ("\u2026" in snippet.text) == (len(line) > limit)
    assert snippet.text.startswith("\u2026") == (not line.startswith(snippet.text[:5]))


PAGES = st.text(alphabet="ab\u6587\ufb01 .\n", max_size=200)
WORDS = st.sets(st.sampled_from(["a", "b", "ab", "ba", "\u6587", "aab"]))


@settings(max_examples=60)
@given(PAGES, WORDS, st.integers(8, 60))
def test_the_cluster_is_as_dense_as_any_window(text, query, limit):
    """The cluster is compared with all windows that begin and end with a match."""
    snippet = make_snippet(text, query, limit)
    line = " ".join(readable(text).split())
    assert snippet.text.strip("\u2026").strip() in line
    assert len(snippet.text) <= limit
    if len(line) <= limit:
        assert snippet.text == line
        return
    hits = [span for span in spans(line) if span[2] in query]
    windows = [(i, j) for i in range(len(hits)) for j in range(i, len(hits))]
    fitting = [hits[i : j + 1] for i, j in windows if hits[j][1] - hits[i][0] <= limit - 2]
    assert snippet.words == max(
        (len({word for _, _, word in window}) for window in fitting), default=0
    )
