"""Collections that are built, updated, interrupted, damaged and replaced."""

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents import PageRef
from docagent_rl.retrieval.engines.build import build_collection
from docagent_rl.retrieval.engines.collection import CollectionIndex
from docagent_rl.retrieval.engines.contents import VectorPage
from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.index import VectorIndex
from tests.retrieval.vectors.conftest import LATE
from tests.retrieval.vectors.encoders import HashingEncoder, vectors

pytestmark = pytest.mark.parametrize("where", ["qdrant", "lancedb"], indirect=True)


def test_pages_that_are_lost_are_seen_and_encoded_again(build, found, corpus):
    (held,) = (document for document in found.header.documents if document.doc_id == "doc-07")
    found.collection.remove(["doc-07"])  # as by a server that lost a part of its pages
    with pytest.raises(UserError, match="of its documents"):
        found.check(corpus)
    assert [problem.partition(":")[0] for problem in found.problems()] == ["doc-07"]
    assert build(corpus).new == held.pages
    found = CollectionIndex.open(found.path)
    found.check(corpus)
    assert found.problems() == []


def test_pages_of_no_document_are_removed(build, found, corpus):
    stray = VectorPage(
        PageRef("stray", 1), "0" * 64, np.eye(2, HashingEncoder.dim, dtype=np.float32)
    )
    found.collection.add([stray])
    with pytest.raises(UserError, match="of its documents"):
        found.check(corpus)
    assert [problem.partition(":")[0] for problem in found.problems()] == ["stray"]
    assert build(corpus).new == 0
    pages = CollectionIndex.open(found.path).collection.pages()
    assert "stray" not in {ref.doc_id for ref, _ in pages}


def test_an_embedded_index_and_a_collection_give_way_by_force_alone(build, corpus, tmp_path, where):
    path = tmp_path / "index"
    build_index(corpus, vectors(), path, kind=LATE)
    with pytest.raises(UserError, match="--force"):
        build(corpus)
    build(corpus, replace=True)
    assert not list(path.glob("files-*"))
    with pytest.raises(UserError, match="--force"):
        build_index(corpus, vectors(), path, kind=LATE)
    build_index(corpus, vectors(), path, kind=LATE, replace=True)
    VectorIndex.open(path).check(corpus)


def test_a_collection_that_is_gone_is_made_again(build, found, corpus):
    found.collection.create()
    with pytest.raises(UserError, match="it has 0 pages"):
        found.check(corpus)
    assert build(corpus).new == len(list(corpus.pages()))


def test_a_name_that_is_taken_at_a_server_is_left_alone(build, corpus, found, tmp_path, where):
    if "url" not in where:
        return
    other = tmp_path / "elsewhere" / "index"
    with pytest.raises(UserError, match="another name"):
        build_collection(corpus, vectors(), other, kind=LATE, **where, replace=True)
    other = tmp_path / "mine"
    build_collection(corpus, vectors(), other, kind=LATE, **where)
    assert CollectionIndex.open(other).header.collection == "mine"
