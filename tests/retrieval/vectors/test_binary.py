"""Binary vectors: pages found by signs, compared with whole vectors that score every page."""

import dataclasses
import shutil
from functools import partial
from itertools import chain
from random import Random

import numpy as np
import pytest
import torch

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.base import top_rows
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.indexes import audit_index, open_index
from docagent_rl.retrieval.vectors import binary
from docagent_rl.retrieval.vectors.bank import NO_SCORE, make_bank, write_banks
from docagent_rl.retrieval.vectors.binary import (
    SIGNS,
    Signs,
    num_candidates,
    open_signs,
    packed,
    write_signs,
)
from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever, _move_vectors
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm
from tests.documents.here import files_of
from tests.retrieval.vectors.conftest import LATE
from tests.retrieval.vectors.encoders import HashingEncoder, vectors

DIM = 100
ENCODER = partial(HashingEncoder, dim=DIM)
BINARY = VectorForm(precision=Precision.BINARY)
WORDS = [f"word{number}" for number in range(300)]


def subjects(seed, documents=24, pages=15):
    """Return documents with one subject each, whose words are on most of its pages; every tenth
    page is blank.
    """
    random = Random(seed)
    corpus = {}
    for number in range(documents):
        subject = random.sample(WORDS, 25)
        texts = [random.choices(subject, k=14) + random.choices(WORDS, k=6) for _ in range(pages)]
        texts[number % 10] = []
        corpus[f"doc-{number:02}"] = [" ".join(text) for text in texts]
    return corpus


CORPUS = subjects(1)
QUERIES = [
    " ".join(Random(page).sample(CORPUS[f"doc-{page:02}"][-1].split(), 6)) for page in range(20)
]


@pytest.fixture(scope="module")
def large(make_store, tmp_path_factory):
    return make_store(tmp_path_factory.mktemp("large"), CORPUS)


@pytest.fixture(scope="module")
def built(large, tmp_path_factory):
    """Return a binary index, which tests must not change."""
    path = tmp_path_factory.mktemp("binary") / "index"
    build_index(large, vectors(dim=DIM), path, kind=LATE, form=BINARY)
    return path


@pytest.fixture
def index(built, tmp_path):
    """Return a copy that the test may change."""
    return shutil.copytree(built, tmp_path / "index")


@pytest.fixture(scope="module")
def whole(large, tmp_path_factory):
    """Return the results of an index of whole vectors, which scores all pages."""
    path = tmp_path_factory.mktemp("whole") / "index"
    build_index(large, vectors(dim=DIM), path, kind=LATE)
    return VectorRetriever(open_index(path), ENCODER)


@pytest.fixture
def retriever(built):
    return VectorRetriever(open_index(built), ENCODER)


def random_pages(dim):
    rng = np.random.default_rng(dim)
    pages = [rng.standard_normal((count, dim)).astype(np.float32) for count in (3, 0, 40, 1, 0)]
    pages[0][1] = 0
    return pages, [rng.standard_normal((count, dim)).astype(np.float32) for count in (1, 7)]


@pytest.mark.parametrize("dim", [1, 16, 64, 100, 192, 200])
def test_first_scores_are_those_of_signs(dim, monkeypatch):
    monkeypatch.setattr(binary, "_ROWS", 4)
    pages, queries = random_pages(dim)
    bank = make_bank(pages, dim)
    found = Signs(packed(np.concatenate(pages)), bank).scores(queries, 0, len(pages))
    for row, query in zip(found, queries, strict=True):
        for score, page in zip(row, pages, strict=True):
            products = np.where(query > 0, 1, -1) @ np.where(page > 0, 1, -1).T
            assert score == (products.max(1).sum() if len(page) else NO_SCORE)
    part = Signs(packed(np.concatenate(pages)), bank).scores(queries, 1, 3)
    np.testing.assert_array_equal(part, found[:, 1:3])


def test_signs_that_all_differ_are_counted():
    page = np.ones((1, 256), np.float32)
    assert Signs(packed(page), make_bank([page], 256)).scores([-page], 0, 1) == -256


def test_a_query_that_does_not_fit_is_refused():
    page = np.ones((1, 16), np.float32)
    signs = Signs(packed(page), make_bank([page], 16))
    for query in (page[:, :8], page[:0], page * np.nan):
        with pytest.raises(ValueError, match="finite"):
            signs.scores([query], 0, 1)


def test_signs_find_most_of_the_best_pages_and_whole_vectors_score_them(retriever, whole):
    found, best = (each.search(QUERIES, top_k=5) for each in (retriever, whole))
    everything = whole.search(QUERIES, top_k=1000)
    shared = 0
    for hits, wanted, pages in zip(found, best, everything, strict=True):
        scores = {hit.ref: hit.score for hit in pages}
        assert len(hits) == 5
        assert all(hit.score == pytest.approx(scores[hit.ref], abs=1e-5) for hit in hits)
        assert hits == sorted(hits, key=lambda hit: (-hit.score, hit.ref))
        shared += len({hit.ref for hit in hits} & {hit.ref for hit in wanted})
    assert shared >= 0.95 * 5 * len(QUERIES)


def test_fewer_candidates_find_fewer_of_the_best_pages(retriever, whole, monkeypatch):
    """The first pass goes by similarity, and a page that it does not find is missed."""
    monkeypatch.setattr("docagent_rl.retrieval.vectors.index.num_candidates", lambda top_k: top_k)
    found, best = (each.search(QUERIES, top_k=5) for each in (retriever, whole))
    shared = [
        len({hit.ref for hit in hits} & {hit.ref for hit in wanted})
        for hits, wanted in zip(found, best, strict=True)
    ]
    assert 0.5 * 5 * len(QUERIES) < sum(shared) < 5 * len(QUERIES)


def same(found, want):
    for hits, best in zip(found, want, strict=True):
        assert [hit.ref for hit in hits] == [hit.ref for hit in best]
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in best], abs=1e-5)
    return True


def test_where_candidates_are_all_pages_the_answers_are_exact(retriever, whole):
    for options in ({"top_k": 50}, {"top_k": 1000}, {"top_k": 3, "doc_id": "doc-07"}):
        assert same(retriever.search(QUERIES, **options), whole.search(QUERIES, **options))
    refs = [
        PageRef(doc_id, page)
        for doc_id, texts in CORPUS.items()
        for page in range(1, len(texts) + 1)
    ]
    left = set(Random(3).sample(refs, num_candidates(10)))
    options = {"top_k": 10, "exclude": set(refs) - left}
    assert len(refs) > num_candidates(10)
    found = retriever.search(QUERIES, **options)
    assert same(found, whole.search(QUERIES, **options))
    assert all(len(hits) == 10 for hits in found)
    options["exclude"] = set(refs)
    assert retriever.search(QUERIES, **options) == [[]] * len(QUERIES)


def test_a_long_document_is_searched_alone_and_others_take_the_place_of_excluded_pages(
    make_store, tmp_path
):
    store = make_store(
        tmp_path / "store", {"long": list(chain(*CORPUS.values())), "few": QUERIES[:3]}
    )
    for name, form in (("whole", VectorForm()), ("binary", BINARY)):
        build_index(store, vectors(dim=DIM), tmp_path / name, kind=LATE, form=form)
    whole, found = (
        VectorRetriever(open_index(tmp_path / name), ENCODER) for name in ("whole", "binary")
    )
    options = {"doc_id": "long", "top_k": 2}
    best = whole.search(QUERIES, **options)
    assert same(found.search(QUERIES, **options), best)
    for query, hits in zip(QUERIES, best, strict=True):
        options["exclude"] = {hit.ref for hit in hits} | {PageRef("few", 1)}
        (others,) = found.search([query], **options)
        assert len(others) == 2
        assert same([others], whole.search([query], **options))


def test_whole_vectors_of_candidates_alone_are_read(built):
    """The vectors of other pages may even contain NaN."""
    index = VectorIndex.open(built)
    (query,) = ENCODER().encode_queries(QUERIES[:1])
    want = index.rank([query], doc_id=None, top_k=10, exclude=())
    assert index.signs is not None
    (first,) = index.signs.scores([query], 0, len(index.rows))
    kept = torch.full_like(index.bank.vectors, torch.nan)
    for row in top_rows(first, num_candidates(10), NO_SCORE):
        start, end = index.bank.offsets[row : row + 2]
        kept[start:end] = index.bank.vectors[start:end]
    index.bank = dataclasses.replace(index.bank, vectors=kept)
    assert index.rank([query], doc_id=None, top_k=10, exclude=()) == want


def test_an_index_says_that_it_is_binary_and_an_update_keeps_it_so(index, make_store, tmp_path):
    header = open_index(index).header
    assert (header.form.precision, SIGNS in header.files) == (Precision.BINARY, True)
    assert open_index(index).info()["precision"] == "binary"
    changed = CORPUS | {"doc-03": ["one other page"], "new": ["a new document"]}
    store = make_store(tmp_path / "changed", changed)
    with pytest.raises(UserError, match="--force"):
        build_index(store, vectors(dim=DIM), index, kind=LATE)
    assert build_index(store, vectors(dim=DIM), index, kind=LATE, form=BINARY).new == 2
    build_index(store, vectors(dim=DIM), tmp_path / "fresh", kind=LATE, form=BINARY)
    assert files_of(tmp_path / "fresh") == files_of(index)
    (hits,) = VectorRetriever(open_index(index), ENCODER).search(["a new document"], top_k=1)
    assert hits[0].ref == PageRef("new", 1)


def test_damaged_signs_are_told_and_mended(large, index):
    (path,) = index.glob(f"files-*/{SIGNS}")
    data = path.read_bytes()
    for damaged in (data[:-7], None, data[:-1] + bytes([data[-1] ^ 1])):
        path.unlink(missing_ok=True)
        if damaged:
            path.write_bytes(damaged)
        with pytest.raises(UserError, match=str(path)):
            VectorIndex.open(index)
        assert [str(path) in str(damage) for damage in audit_index(index).damages] == [True]
    build_index(large, vectors(dim=DIM), index, kind=LATE, form=BINARY, replace=True)
    assert not audit_index(index).damages
    assert (index / HEADER).is_file()


def test_signs_of_other_vectors_are_refused(tmp_path):
    (tmp_path / "other").mkdir()
    for folder, rows in ((tmp_path, 5), (tmp_path / "other", 4)):
        write_banks(folder, [make_bank([np.ones((rows, 16), np.float32)], 16)])
        write_signs(folder)
    shutil.copy(tmp_path / "other" / SIGNS, tmp_path / SIGNS)
    with pytest.raises(ValueError, match=rf"{SIGNS}.*\(4, 1\).*\(5, 1\)"):
        open_signs(tmp_path, make_bank([np.ones((5, 16), np.float32)], 16))


def test_a_device_is_refused(built):
    with pytest.raises(UserError, match=r"here=cpu.*binary.*here=null"):
        _move_vectors(VectorIndex.open(built), "cpu", "here")
