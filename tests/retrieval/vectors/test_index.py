"""Indexes of vectors: interrupted, concurrent and distributed builds, opening and auditing."""

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.indexes import audit_index, open_index
from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.encoding import PageVectors, RayVectors
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from tests.documents.here import files_of
from tests.retrieval.vectors.conftest import CORPUS, LATE, QUERIES
from tests.retrieval.vectors.encoders import HashingEncoder, hashing, vectors


def embedded(store, path, made=None, **options):
    return build_index(store, made or vectors(), path, kind=LATE, **options)


def test_scores_are_those_of_the_pages(corpus, built):
    index, encoder = VectorIndex.open(built), HashingEncoder()
    queries = encoder.encode_queries(QUERIES)
    scores = index.scores(queries)
    for row, ref in enumerate(corpus.pages()):
        assert index.rows.ref(row) == ref
        (vectors,) = encoder.encode_pages([corpus.page(ref).text()])
        for number, query in enumerate(queries):
            want = (query @ vectors.T).max(1).sum() if len(vectors) else -np.inf
            assert scores[number, row] == pytest.approx(want, abs=0.03)
    assert np.isneginf(scores).any()
    assert (scores[np.isfinite(scores)] < 0).any()


def test_a_store_is_encoded_once_and_a_copy_has_the_same_files(
    build, corpus, built, tmp_path, where
):
    pages = len(list(corpus.pages()))
    first = build(corpus)
    assert (first.pages, first.new, first.documents) == (pages, pages, len(CORPUS))
    assert build(corpus).new == 0
    info = open_index(tmp_path / "index").info()
    assert (info["documents"], info["pages"], info["pages without vectors"]) == (
        12,
        pages,
        first.blank,
    )
    assert first.blank > 0
    assert not audit_index(tmp_path / "index").damages
    assert where or files_of(tmp_path / "index") == files_of(built)


def test_documents_are_added_changed_and_removed(build, found, make_store, tmp_path, where):
    changed = dict(CORPUS) | {
        "doc-03": ["one other page", "and two"],
        "new": ["a new document of gold"],
    }
    del changed["doc-05"]
    store = make_store(tmp_path / "changed", changed)
    with pytest.raises(UserError, match=r"3 (of its )?documents"):
        found.check(store)
    assert build(store).new == 3
    found = open_index(found.path)
    found.check(store)
    assert not audit_index(found.path).damages
    retriever = VectorRetriever(found, HashingEncoder)
    refs = {hit.ref for hit in retriever.search(["a new document of gold"], top_k=1000)[0]}
    assert "doc-05" not in {ref.doc_id for ref in refs}
    assert {ref.page for ref in refs if ref.doc_id == "doc-03"} == {1, 2}
    assert retriever.search(["a new document of gold"], top_k=1)[0][0].ref.doc_id == "new"
    if not where:
        build_index(store, vectors(), tmp_path / "fresh", kind=LATE)
        assert files_of(tmp_path / "fresh") == files_of(found.path)


@pytest.mark.usefixtures("found")
def test_another_model_is_refused_and_replaced_by_force(build, corpus):
    with pytest.raises(UserError, match="--force"):
        build(corpus, vectors(salt="other"))
    assert build(corpus, vectors(salt="other"), replace=True).new > 80


def test_interrupted_builds_go_on_and_end_alike(build, corpus, built, tmp_path, monkeypatch, where):
    # small parts: some documents are stored before the encoder stops
    monkeypatch.setattr("docagent_rl.retrieval.engines.build._NUMBERS", 200)
    asked = []

    class Interrupted(HashingEncoder):
        def encode_pages(self, pages):
            asked.extend(pages)
            if len(asked) > 50:
                raise KeyboardInterrupt
            return super().encode_pages(pages)

    with pytest.raises(KeyboardInterrupt):
        build(corpus, PageVectors(Interrupted))
    done = build(corpus)
    assert 0 < done.new < done.pages
    open_index(tmp_path / "index").check(corpus)
    assert not audit_index(tmp_path / "index").damages
    assert where or files_of(tmp_path / "index") == files_of(built)
    assert not list((tmp_path / "index").glob(".*.tmp"))


def test_a_broken_header_is_told_and_replaced_by_force_alone(corpus, index, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    for use in (lambda path: embedded(corpus, path), VectorIndex.open):
        with pytest.raises(UserError, match="letters"):
            use(tmp_path / "letters")
        for data in (b"\xff{", b'{"kind": 3}', b"[" * 100_000):
            (index / HEADER).write_bytes(data)
            with pytest.raises(UserError, match=HEADER):
                use(index)
    assert [damage.path.name for damage in audit_index(index).damages] == [HEADER]
    assert embedded(corpus, index, replace=True).new > 80
    VectorIndex.open(index).check(corpus)


@pytest.mark.parametrize("name", ["vectors.npy", "offsets.npy"])
def test_damage_is_told_and_mended(corpus, index, tmp_path, name):
    (path,) = index.glob(f"files-*/{name}")
    data = path.read_bytes()
    at = len(data) // 2
    altered = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    for damaged in (data[:-7], None, altered):
        path.unlink(missing_ok=True)
        if damaged:
            path.write_bytes(damaged)
        with pytest.raises(UserError, match=str(path)):
            VectorIndex.open(index)
        assert [str(path) in str(damage) for damage in audit_index(index).damages] == [True]
    with pytest.raises(UserError, match=str(path)):
        embedded(corpus, index)
    assert embedded(corpus, index, replace=True).new > 80
    assert not audit_index(index).damages


@pytest.fixture(scope="module")
def cluster(ray_head):
    import ray

    ray.init(address=ray_head, log_to_driver=False, logging_level="error")
    yield
    ray.shutdown()


class _Failing(HashingEncoder):
    def encode_pages(self, pages):
        raise MemoryError("no room for 3 pages")


def _absent():
    raise UserError("encoder.model=/nowhere")


@pytest.mark.slow
def test_failures_of_workers_are_raised_here(cluster, corpus, tmp_path):
    other = RayVectors(hashing())
    told = RayVectors(hashing(salt="other")).facts()
    other.facts = lambda: told
    for made, error, named in (
        (RayVectors(_Failing), MemoryError, "3 pages"),
        (RayVectors(_absent), UserError, "/nowhere"),
        (other, UserError, "another model"),
    ):
        with pytest.raises(error, match=named):
            embedded(corpus, tmp_path / "index", made, replace=True)
