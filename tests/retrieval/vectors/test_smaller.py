import numpy as np
import pytest
import torch
from colpali_engine.compression.token_pooling import HierarchicalTokenPooler

from docagent_rl.base.errors import UserError
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines.build import build_collection
from docagent_rl.retrieval.indexes import audit_index, build_vectors, open_index
from docagent_rl.retrieval.vectors.bank import make_bank, open_bank, page_scores, write_banks
from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.retriever import VectorRetriever
from docagent_rl.retrieval.vectors.smaller import Precision, VectorForm, pool, quantised
from tests.documents.here import files_of
from tests.retrieval.vectors.conftest import LATE, QUERIES
from tests.retrieval.vectors.encoders import HashingEncoder, vectors


def unit(seed, count, dim=16):
    rows = np.random.default_rng(seed).standard_normal((count, dim)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("factor", [2, 3, 5, 100])
def test_vectors_are_pooled_as_colpali_engine_pools_them(factor):
    for seed, count in enumerate((2, 3, 7, 60)):
        rows = unit(seed, count)
        (want,) = HierarchicalTokenPooler().pool_embeddings(
            [torch.from_numpy(rows)], pool_factor=factor
        )
        found = pool(rows, factor)
        assert len(found) <= max(count // factor, 1)
        np.testing.assert_allclose(found, want.numpy(), atol=1e-6)


def test_what_cannot_be_pooled_stays():
    for rows in (unit(0, 0), unit(0, 1), unit(0, 5)):
        assert pool(rows, 1) is rows
    assert pool(unit(0, 1), 3).shape == (1, 16)
    assert pool(unit(0, 0), 3).shape == (0, 16)


def test_int8_is_off_by_half_a_step_of_each_vector_at_most():
    rows = unit(1, 50) * np.linspace(0, 3, 50, dtype=np.float32)[:, None]
    numbers, scales = quantised(rows)
    assert (numbers.dtype, scales.dtype) == (np.int8, np.float32)
    assert (np.abs(numbers * scales[:, None] - rows) <= scales[:, None] / 2 + 1e-7).all()
    assert (numbers[0] == 0).all()


def test_a_bank_of_int8_is_scored_as_its_numbers_say(tmp_path):
    pages = [unit(seed, count) for seed, count in enumerate((3, 0, 40, 1))]
    bank, query = make_bank(pages, 16, Precision.INT8), unit(9, 4)
    write_banks(tmp_path, [bank.span(0, 2), bank.span(2, 4)])
    again = open_bank(tmp_path)
    assert again.precision is bank.precision is Precision.INT8
    stored = [numbers * scales[:, None] for numbers, scales in map(quantised, pages)]
    want = page_scores(make_bank(stored, 16), [query])
    for found in (page_scores(bank, [query]), page_scores(again, [query])):
        np.testing.assert_allclose(found, want, atol=2e-2)
    assert page_scores(again, [query]).tobytes() == page_scores(bank, [query]).tobytes()
    assert bank.nbytes < make_bank(pages, 16).nbytes


FORM = VectorForm(pooled=2, precision=Precision.INT8)


def test_an_index_holds_what_its_header_says_and_is_brought_up_to_date_in_that_form(
    corpus, built, tmp_path
):
    path = tmp_path / "small"
    build_index(corpus, vectors(), path, kind=LATE, form=FORM)
    index = open_index(path)
    assert (index.info()["pooled"], index.info()["precision"]) == (2, "int8")
    assert len(index.bank.vectors) < 0.6 * len(open_index(built).bank.vectors)
    assert build_index(corpus, vectors(), path, kind=LATE, form=FORM).new == 0
    assert not audit_index(path).damages
    build_index(corpus, vectors(), tmp_path / "again", kind=LATE, form=FORM)
    assert files_of(tmp_path / "again") == files_of(path)
    found = VectorRetriever(index, HashingEncoder).search(QUERIES, top_k=5)
    assert all(found[number] for number in range(len(QUERIES)))


def test_another_form_gives_way_by_force_alone(corpus, index):
    with pytest.raises(
        UserError, match=r"\(pooled 1, not 2; precision bfloat16, not int8\).*--force"
    ):
        build_index(corpus, vectors(), index, kind=LATE, form=FORM)
    build_index(corpus, vectors(), index, kind=LATE, form=FORM, replace=True)
    assert open_index(index).header.form == FORM


def test_collections_are_pooled_and_keep_their_own_precision(corpus, tmp_path):
    where = {"engine": SearchEngine.LANCEDB, "kind": LATE}
    with pytest.raises(UserError, match="embedded"):
        build_collection(corpus, vectors(), tmp_path / "a", form=FORM, **where)
    build_collection(corpus, vectors(), tmp_path / "b", form=VectorForm(pooled=2), **where)
    build_index(corpus, vectors(), tmp_path / "c", kind=LATE, form=VectorForm(pooled=2))
    ours, theirs = (
        VectorRetriever(open_index(tmp_path / name), HashingEncoder).search(QUERIES, top_k=200)
        for name in ("b", "c")
    )
    for one, other in zip(ours, theirs, strict=True):
        scores = {hit.ref: hit.score for hit in other}
        assert {hit.ref: hit.score for hit in one} == pytest.approx(scores, abs=2e-3)


def test_one_vector_is_not_pooled(corpus, tmp_path):
    with pytest.raises(UserError, match="minilm"):
        build_vectors(corpus, tmp_path / "index", "minilm", form=VectorForm(pooled=2))
