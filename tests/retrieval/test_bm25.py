from __future__ import annotations

import json
import logging
import math
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from docagent_rl.documents import DocumentStore, PageRef, RenderSettings
from docagent_rl.documents.ingestion import ingest
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings

PARAMETERS = [(1.5, 0.75), (0.9, 0.4), (0.0, 0.0), (3.0, 1.0)]


@pytest.fixture(scope="module")
def retriever(store) -> BM25Retriever:
    return BM25Retriever.build(store)


@pytest.fixture(scope="module")
def by_parameters(store) -> dict[tuple[float, float], BM25Retriever]:
    return {(k1, b): BM25Retriever.build(store, settings=BM25Settings(k1=k1, b=b)) for k1, b in PARAMETERS}


def slow_bm25(pages: dict[str, list[str]], query: str, k1: float, b: float) -> dict[PageRef, float]:
    """Lucene's BM25 straight from its formula, in float64."""
    split = re.compile(r"\w+").findall
    rows = {PageRef(d, n): split(text) for d, texts in pages.items() for n, text in enumerate(texts, start=1)}
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
    """Three pages of 2, 4 and 3 tokens, avgdl 3; `cat` is on two pages: idf = ln(1 + 1.5 / 2.5)."""
    store = make_store(tmp_path, {"a": ["cat dog", "cat cat bird fish", "no such thing"]})
    (hits,) = BM25Retriever.build(store, settings=BM25Settings(k1=2.0, b=0.6)).search(["cat"], top_k=5)
    idf = math.log(1.6)
    first = idf * 2 / (2.0 * (0.4 + 0.6 * 4 / 3) + 2)
    second = idf * 1 / (2.0 * (0.4 + 0.6 * 2 / 3) + 1)
    assert [str(hit.ref) for hit in hits] == ["a#2", "a#1"]
    assert type(hits[0].ref.page) is int
    assert [hit.score for hit in hits] == pytest.approx([first, second], rel=1e-6)


def test_classic_scores_are_larger_by_a_factor(store, tmp_path):
    query = ["the cat grow"]
    plain, classic = (
        BM25Retriever.build(store, settings=BM25Settings(k1=1.2, classic=c)) for c in (False, True)
    )
    classic.save(tmp_path / "index")
    for retriever in (classic, BM25Retriever.load(tmp_path / "index")):
        (hits,), (larger,) = plain.search(query, top_k=9), retriever.search(query, top_k=9)
        assert [hit.ref for hit in hits] == [hit.ref for hit in larger] != []
        assert [hit.score * 2.2 for hit in hits] == pytest.approx([hit.score for hit in larger])
    assert plain != classic


def test_a_batch_is_answered_in_order(retriever):
    queries = ["cat", "", "grow", " \n", "…"]
    answers = retriever.search(queries, top_k=3)
    assert answers == [retriever.search([query], top_k=3)[0] for query in queries]
    assert [bool(hits) for hits in answers] == [True, False, True, False, False]
    assert retriever.search([], top_k=3) == []


def test_bad_arguments(retriever):
    with pytest.raises(UserError, match=r"'plants'.*'b\.plants'"):
        retriever.search(["cat"], doc_id="plants", top_k=1)
    with pytest.raises(UserError, match="k1"):
        BM25Settings(k1=-1)
    with pytest.raises(UserError, match="b="):
        BM25Settings(b=float("nan"))


WORDS = ["cat", "the", "grow", "birds", "table", "3", "zebra", "and", "items"]
DOCS = [None, "animals", "b.plants", "numbers"]
REFS = [PageRef(d, n) for d, k in (("animals", 4), ("b.plants", 3), ("numbers", 3)) for n in range(1, k + 1)]


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
    """Scores are the formula's, equal pages are in their order, pages without a word of the query no hits."""
    (hits,) = by_parameters[parameters].search([query], doc_id=doc_id, top_k=top_k, exclude=exclude)
    scores = slow_bm25(pages, query, *parameters)
    left = {r for r, s in scores.items() if s > 0 and r not in exclude and doc_id in (None, r.doc_id)}
    assert len(hits) == min(top_k, len(left))
    assert {hit.ref for hit in hits} <= left
    assert [hit.score for hit in hits] == pytest.approx([scores[hit.ref] for hit in hits], rel=1e-5)
    assert [(-hit.score, hit.ref) for hit in hits] == sorted((-hit.score, hit.ref) for hit in hits)
    worst = min((hit.score for hit in hits), default=math.inf)
    assert all(scores[ref] <= worst + 1e-5 for ref in left - {hit.ref for hit in hits})


def test_saved_and_loaded_it_answers_the_same(retriever, store, tmp_path):
    retriever.save(tmp_path / "index")
    loaded = BM25Retriever.load(tmp_path / "index")
    loaded.check(store)
    assert loaded.settings == retriever.settings
    assert loaded.num_pages == len(REFS)
    assert all(isinstance(loaded._index.scores[n], np.memmap) for n in ("data", "indices", "indptr"))
    for doc_id in DOCS:
        assert loaded.search(WORDS, doc_id=doc_id, top_k=4) == retriever.search(WORDS, doc_id=doc_id, top_k=4)


def test_the_same_store_gives_the_same_files(store, tmp_path):
    for name in ("one", "two"):
        BM25Retriever.build(store).save(tmp_path / name)
    one, two = ({str(p.relative_to(tmp_path / n)): p for p in _files(tmp_path / n)} for n in ("one", "two"))
    assert len(one) > 5
    assert {n: p.read_bytes() for n, p in one.items()} == {n: p.read_bytes() for n, p in two.items()}


def _files(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


def test_saving_replaces_an_index_and_nothing_else(retriever, tmp_path):
    retriever.save(tmp_path / "index")
    retriever.save(tmp_path / "index")
    assert BM25Retriever.load(tmp_path / "index").num_pages == len(REFS)
    precious = tmp_path / "data" / "precious.txt"
    precious.parent.mkdir()
    precious.touch()
    for target in (precious.parent, precious):
        with pytest.raises(UserError, match=target.name):
            retriever.save(target)
    assert precious.exists()


def test_a_save_that_fails_leaves_the_old_index(retriever, store, tmp_path, monkeypatch):
    retriever.save(tmp_path / "index")
    before = {path: path.read_bytes() for path in _files(tmp_path / "index")}
    other = BM25Retriever.build(store, settings=BM25Settings(k1=0.5))

    def fail(*args, **options):
        raise OSError("disk full")

    for name in ("numpy.save", "docagent_rl.retrieval.index_files.atomic_write"):
        with monkeypatch.context() as patch:
            patch.setattr(name, fail)
            with pytest.raises(UserError, match=r"index.*disk full"):
                other.save(tmp_path / "index")
        assert [path.name for path in tmp_path.iterdir()] == ["index"]
        assert BM25Retriever.load(tmp_path / "index").settings == retriever.settings
    assert before.items() <= {path: path.read_bytes() for path in _files(tmp_path / "index")}.items()
    # what the failed saves left goes with the next one
    retriever.save(tmp_path / "index")
    assert before == {path: path.read_bytes() for path in _files(tmp_path / "index")}


def test_what_killed_writers_left_goes_with_the_next_save(retriever, tmp_path):
    """Of this version inside of the folder, of earlier ones beside it."""
    for name in (
        "index/.abc.tmp",
        "index/files-0123456789abcdef",
        ".index.ab12_xyz.tmp",
        ".index.ab12_xyz.old/d",
    ):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "data.csc.index.npy").touch()
    (tmp_path / ".index.mine").mkdir()
    retriever.save(tmp_path / "index")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".index.mine", "index"]
    assert len(list((tmp_path / "index").iterdir())) == 3
    assert BM25Retriever.load(tmp_path / "index").num_pages == len(REFS)


def _flatten(index):
    """The index as earlier versions wrote it: arrays beside the header, no checksums."""
    (folder,) = index.glob("files-*")
    for path in folder.iterdir():
        path.rename(index / path.name)
    folder.rmdir()
    header = json.loads((index / "docagent_index.json").read_text())
    for name in ("checksum", "files"):
        del header[name]
    header["schema_version"] = 1
    (index / "docagent_index.json").write_text(json.dumps(header))


def test_an_index_of_an_earlier_version_loads_with_a_warning(retriever, tmp_path, caplog):
    retriever.save(tmp_path / "index")
    _flatten(tmp_path / "index")
    old = BM25Retriever.load(tmp_path / "index")
    assert old == retriever
    assert old.search(WORDS, top_k=4) == retriever.search(WORDS, top_k=4)
    assert "no checksums" in caplog.text
    caplog.clear()
    retriever.save(tmp_path / "index")
    assert not list((tmp_path / "index").glob("*.npy"))
    assert BM25Retriever.load(tmp_path / "index") == retriever
    assert caplog.text.count("no checksums") == 0


def test_pickled_arrays_are_refused(retriever, tmp_path):
    retriever.save(tmp_path / "index")
    _flatten(tmp_path / "index")
    np.save(tmp_path / "index" / "data.csc.index.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(UserError, match=str(tmp_path)):
        BM25Retriever.load(tmp_path / "index")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("data", lambda array: array * np.nan),
        ("data", lambda array: array[1:]),
        ("indices", lambda array: array + 100),
        ("indptr", lambda array: array[::-1]),
        ("indptr", lambda array: array.astype(np.float32)),
    ],
)
def test_without_checksums_arrays_that_do_not_fit_are_refused(retriever, tmp_path, name, change):
    retriever.save(tmp_path / "index")
    _flatten(tmp_path / "index")
    path = tmp_path / "index" / f"{name}.csc.index.npy"
    np.save(path, change(np.load(path)))
    with pytest.raises(UserError, match=str(tmp_path)):
        BM25Retriever.load(tmp_path / "index")


def test_a_changed_store_is_noticed(make_store, tmp_path):
    store = make_store(tmp_path, {"a": ["one"], "b": ["two"]})
    retriever = BM25Retriever.build(store)
    retriever.check(store)
    # other rasters, same texts: the index still holds
    ingest(tmp_path / "inbox", store.path, settings=RenderSettings(dpi=12), workers=1)
    retriever.check(DocumentStore(store.path))
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "c.pdf").write_bytes((tmp_path / "inbox" / "a.pdf").read_bytes())
    ingest(tmp_path / "more", store.path, settings=RenderSettings(dpi=12), workers=1)
    with pytest.raises(UserError):
        retriever.check(DocumentStore(store.path))


def test_a_store_without_text_is_refused(make_store, tmp_path):
    with pytest.raises(UserError):
        BM25Retriever.build(make_store(tmp_path, {"a": ["", ""]}))


def test_threads_may_search_at_once(retriever):
    queries = [WORDS[n % len(WORDS)] for n in range(64)]
    expected = [retriever.search([query], top_k=3) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda query: retriever.search([query], top_k=3), queries)) == expected


def test_the_library_says_nothing_of_what_it_does(caplog):
    from docagent_rl.retrieval.bm25s_library import load_bm25s

    caplog.set_level(logging.DEBUG)
    logging.getLogger("bm25s").setLevel(logging.DEBUG)  # as its import leaves it
    bm25s = load_bm25s()
    bm25s.BM25().index([["a", "b"], ["b", "c"]], show_progress=False)
    assert caplog.text == ""
