from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from docagent_rl.documents import DocumentStore, PageContent, PageRef
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval.audit import audit_index
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.vectors.bank import Precision
from docagent_rl.retrieval.vectors.header import Kind, VectorSettings
from docagent_rl.retrieval.vectors.index import VectorIndex
from tests.retrieval.vectors.conftest import CORPUS, texts
from tests.retrieval.vectors.encoders import HashingEncoder, hashing

LATE = Kind.LATE_INTERACTION
QUERIES = HashingEncoder().encode_queries(["the cat sat", "gold", "tree of iron and roses"])


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


def test_scores_are_those_of_the_pages(corpus: DocumentStore, built: Path) -> None:
    index = VectorIndex.open(built)
    encoder = HashingEncoder()
    assert index.info()["shards"] == 8
    scores = index.scores(QUERIES)
    for row, ref in enumerate(corpus.pages()):
        (vectors,) = encoder.encode_pages([corpus.page(ref).text()])
        for number, query in enumerate(QUERIES):
            want = (query @ vectors.T).max(1).sum() if len(vectors) else -np.inf
            assert scores[number, row] == pytest.approx(want, abs=0.03)
    assert np.isneginf(scores).any()
    assert (scores[np.isfinite(scores)] < 0).any()


def test_a_document_is_scored_as_in_the_corpus(built: Path) -> None:
    index = VectorIndex.open(built)
    everything = index.scores(QUERIES)
    for doc_id in CORPUS:
        start, end = index.rows.span(doc_id)
        assert index.scores(QUERIES, doc_id).tobytes() == everything[:, start:end].tobytes()
    rows = np.random.default_rng(0).permutation(index.num_pages)[:40]
    assert index.scores_of(QUERIES[2], rows).tobytes() == everything[2, rows].tobytes()
    with pytest.raises(UserError, match="did you mean 'doc-11' or"):
        index.scores(QUERIES, "doc-1")


def test_the_same_store_gives_the_same_files(
    corpus: DocumentStore, built: Path, tmp_path: Path, small_shards: int
) -> None:
    VectorIndex.build(corpus, hashing(), tmp_path / "again", kind=LATE)
    assert files_of(tmp_path / "again") == files_of(built)


def test_what_is_there_is_not_encoded_again(corpus: DocumentStore, index: Path) -> None:
    before = files_of(index)
    done = VectorIndex.build(corpus, hashing(), index, kind=LATE)
    assert (done.encoded, done.documents, done.pages) == (0, 12, sum(map(len, CORPUS.values())))
    assert files_of(index) == before


def test_a_new_document_costs_that_document(
    make_store: Callable[..., DocumentStore], index: Path, tmp_path: Path
) -> None:
    changed = dict(CORPUS) | {"doc-03": ["one other page", "and two"], "new": ["a new document of gold"]}
    del changed["doc-05"]
    store = make_store(tmp_path / "changed", changed)
    with pytest.raises(UserError, match="3 of its documents were added, removed or ingested again"):
        VectorIndex.open(index).check(store)
    kept = {path.name for path in index.glob("shard-*")}
    done = VectorIndex.build(store, hashing(), index, kind=LATE)
    assert done.encoded == 3
    assert len({path.name for path in index.glob("shard-*")} & kept) >= 4
    VectorIndex.open(index).check(store)
    VectorIndex.build(store, hashing(), tmp_path / "fresh", kind=LATE)
    fresh, updated = VectorIndex.open(tmp_path / "fresh"), VectorIndex.open(index)
    assert updated.scores(QUERIES).tobytes() == fresh.scores(QUERIES).tobytes()
    assert updated.header.identity == fresh.header.identity
    assert not audit_index(index).damages


@pytest.mark.slow
def test_many_additions_become_few_shards(
    make_store: Callable[..., DocumentStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docagent_rl.retrieval.vectors.plan.MANY_SMALL", 3)
    documents: dict[str, list[str]] = {}
    for number in range(7):
        documents[f"d{number:02}"] = texts(number, 2)
        store = make_store(tmp_path / str(number), documents)
        assert VectorIndex.build(store, hashing(), tmp_path / "index", kind=LATE).encoded == 2
    assert len(list((tmp_path / "index").glob("shard-*"))) == 4
    VectorIndex.build(store, hashing(), tmp_path / "fresh", kind=LATE)
    scores = [VectorIndex.open(tmp_path / name).scores(QUERIES).tobytes() for name in ("index", "fresh")]
    assert scores[0] == scores[1]


def test_dead_pages_are_dropped_for_good(make_store: Callable[..., DocumentStore], tmp_path: Path) -> None:
    documents = {f"d{number}": texts(number, 4) for number in range(8)}
    VectorIndex.build(make_store(tmp_path / "a", documents), hashing(), tmp_path / "index", kind=LATE)
    for doc_id in ("d1", "d4", "d6"):
        del documents[doc_id]
    store = make_store(tmp_path / "b", documents)
    assert VectorIndex.build(store, hashing(), tmp_path / "index", kind=LATE).encoded == 0
    VectorIndex.build(store, hashing(), tmp_path / "fresh", kind=LATE)
    assert files_of(tmp_path / "index") == files_of(tmp_path / "fresh")


@pytest.mark.parametrize("precision", Precision)
def test_int8_is_copied_as_it_is(
    precision: Precision, make_store: Callable[..., DocumentStore], tmp_path: Path
) -> None:
    settings = VectorSettings(precision=precision)
    documents = {f"d{number}": texts(number, 4) for number in range(4)}
    store = make_store(tmp_path / "a", documents)
    VectorIndex.build(store, hashing(), tmp_path / "index", kind=LATE, settings=settings)
    del documents["d0"], documents["d2"]
    store = make_store(tmp_path / "b", documents)
    for name in ("index", "fresh"):
        VectorIndex.build(store, hashing(), tmp_path / name, kind=LATE, settings=settings)
    assert files_of(tmp_path / "index") == files_of(tmp_path / "fresh")
    assert VectorIndex.open(tmp_path / "index").info()["precision"] == precision.value


def test_page_images_are_indexed(corpus: DocumentStore, tmp_path: Path) -> None:
    options = {"content": PageContent.IMAGE}
    VectorIndex.build(corpus, hashing(**options), tmp_path / "index", kind=LATE)
    index = VectorIndex.open(tmp_path / "index")
    assert index.header.source.content is PageContent.IMAGE
    assert index.info()["pages without vectors"] == 0
    index.check(corpus)


def test_pooling_leaves_fewer_vectors(corpus: DocumentStore, built: Path, tmp_path: Path) -> None:
    VectorIndex.build(
        corpus, hashing(), tmp_path / "index", kind=LATE, settings=VectorSettings(pool_factor=3)
    )
    full, small = VectorIndex.open(built).info(), VectorIndex.open(tmp_path / "index").info()
    assert small["pages without vectors"] == full["pages without vectors"]
    assert 0.2 < small["vectors"] / full["vectors"] < 0.5
    with pytest.raises(UserError, match="dense ones are of pages"):
        VectorIndex.build(
            corpus, hashing(), tmp_path / "d", kind=Kind.DENSE, settings=VectorSettings(pool_factor=3)
        )


def test_another_index_is_replaced_by_force_alone(
    corpus: DocumentStore, store: DocumentStore, index: Path
) -> None:
    with pytest.raises(UserError, match=r"other vectors \(encoder: .*, not .*\): replace it with --force"):
        VectorIndex.build(corpus, hashing(salt="other"), index, kind=LATE)
    assert VectorIndex.build(corpus, hashing(salt="other"), index, kind=LATE, replace=True).encoded > 80
    BM25Retriever.build(store).save(index)
    assert not list(index.glob("shard-*"))
    with pytest.raises(UserError, match="another kind than late_interaction"):
        VectorIndex.build(corpus, hashing(), index, kind=LATE)
    VectorIndex.build(corpus, hashing(), index, kind=LATE, replace=True)
    assert not list(index.glob("files-*"))
    VectorIndex.open(index).check(corpus)


@pytest.mark.parametrize(
    "data",
    [b"", b"\xff{", b"[1]", b'{"kind": 3}', b"[" * 100_000],
    ids=["empty", "bytes", "list", "kind", "deep"],
)
def test_a_broken_header_is_told_and_replaced_by_force_alone(
    corpus: DocumentStore, index: Path, data: bytes
) -> None:
    (index / HEADER).write_bytes(data)
    with pytest.raises(UserError, match=f"{HEADER}: damaged"):
        VectorIndex.open(index)
    assert [damage.path.name for damage in audit_index(index).damages] == [HEADER]
    with pytest.raises(UserError, match=f"{HEADER}: damaged"):
        VectorIndex.build(corpus, hashing(), index, kind=LATE)
    assert VectorIndex.build(corpus, hashing(), index, kind=LATE, replace=True).encoded == 0
    VectorIndex.open(index).check(corpus)


def test_a_folder_of_something_else_is_left_alone(corpus: DocumentStore, tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "mine.txt").write_text("dear")
    with pytest.raises(UserError, match="is not an index: name a new folder"):
        VectorIndex.build(corpus, hashing(), tmp_path / "letters", kind=LATE)
    with pytest.raises(UserError, match="is not an index"):
        VectorIndex.open(tmp_path / "letters")


@pytest.mark.parametrize("name", ["vectors.bin", "offsets.bin", "shard.json"])
@pytest.mark.parametrize("how", ["cut", "altered", "missing", "link"])
def test_damage_is_told_and_mended(
    corpus: DocumentStore, index: Path, name: str, how: str, tmp_path: Path
) -> None:
    path = sorted(index.glob(f"shard-*/{name}"))[2]
    data = path.read_bytes()
    if how == "altered":
        path.write_bytes(data[:40] + bytes([data[40] ^ 1]) + data[41:])
    elif how == "cut":
        os.truncate(path, len(data) - 7)
    else:
        path.unlink()
    if how == "link":
        (tmp_path / "elsewhere").write_bytes(data)
        path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UserError, match=f"{path}.*rebuild the index with `docagent-rl index build"):
        VectorIndex.open(index)
    audit = audit_index(index)
    assert [damage.path for damage in audit.damages] == [path]
    assert 0 < VectorIndex.build(corpus, hashing(), index, kind=LATE, replace=True).encoded < 30
    assert not audit_index(index).damages


@pytest.mark.slow
def test_an_index_of_the_first_stage_is_carried_over(
    make_store: Callable[..., DocumentStore], tmp_path: Path, small_shards: int
) -> None:
    store = make_store(tmp_path / "a", CORPUS)
    VectorIndex.build(store, hashing(), tmp_path / "index", kind=LATE, two_stages_from=100)
    first = VectorIndex.open(tmp_path / "index")
    assert first.candidates is not None
    store = make_store(tmp_path / "b", CORPUS | {"new": ["gold and tin", "iron"]})
    VectorIndex.build(store, hashing(), tmp_path / "index", kind=LATE, two_stages_from=100)
    second = VectorIndex.open(tmp_path / "index")
    assert second.candidates is not None
    assert second.candidates.clusters.centres.tobytes() == first.candidates.clusters.centres.tobytes()
    assert len(list((tmp_path / "index").glob("candidates-*"))) == 1
    assert second.candidates.pages.max() == second.num_pages - 1
    shutil.rmtree(next((tmp_path / "index").glob("candidates-*")))
    with pytest.raises(UserError, match=r"candidates\.json"):
        VectorIndex.open(tmp_path / "index")
    VectorIndex.build(store, hashing(), tmp_path / "index", kind=LATE, two_stages_from=100, replace=True)
    assert VectorIndex.open(tmp_path / "index").candidates is not None


def test_an_unsteady_encoder_is_no_damage_to_the_index(corpus: DocumentStore, index: Path) -> None:
    class Broken(HashingEncoder):
        def encode_pages(self, pages):
            return [np.full((2, self.dim), np.nan, np.float32) for _ in pages]

    before = files_of(index)
    with pytest.raises(InfrastructureError, match="page doc-00#1: the encoder gave an array of shape"):
        VectorIndex.build(corpus, lambda: Broken(salt="x"), index, kind=LATE, replace=True)
    assert {name: data for name, data in files_of(index).items() if name in before} == before
    VectorIndex.open(index).check(corpus)


def test_an_empty_store_is_refused(tmp_path: Path, make_store: Callable[..., DocumentStore]) -> None:
    store = make_store(tmp_path, {"a": ["x"]})
    store.manifest_path("a").unlink()
    with pytest.raises(UserError, match="holds no documents"):
        VectorIndex.build(DocumentStore(store.path), hashing(), tmp_path / "index", kind=LATE)


def test_rows_are_pages(built: Path) -> None:
    index = VectorIndex.open(built)
    assert index.rows.ref(0) == PageRef("doc-00", 1)
    assert (built / HEADER).is_file()
