"""A retriever that is opened again when its index is replaced."""

import shutil
import time

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upkeep import remove
from docagent_rl.retrieval.base import StaleIndexError
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.config import RetrieverConfig
from docagent_rl.retrieval.index_files import HEADER
from docagent_rl.retrieval.indexes import update_index
from docagent_rl.retrieval.opening import open_local
from docagent_rl.retrieval.service import following
from docagent_rl.retrieval.service.app import STALE, describe_index
from docagent_rl.retrieval.service.following import FollowingRetriever, Opened

_PATIENCE_S = 60


@pytest.fixture
def folder(store, saved, tmp_path):
    """Return a store and its index, which a test may change."""
    shutil.copytree(store.path, tmp_path / "store")
    shutil.copytree(saved, tmp_path / "index")
    return tmp_path


@pytest.fixture
def opens(folder):
    """Open the retriever, and count how often."""
    calls = []

    def opened():
        calls.append(1)
        found = BM25Retriever.load(folder / "index")
        return Opened(found, describe_index(found, DocumentStore(folder / "store"), kind="bm25"))

    opened.calls = calls
    return opened


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(following, "LOOK_S", 0.01)
    monkeypatch.setattr(following, "_AGAIN_S", 0.05)


def wait(done):
    end = time.monotonic() + _PATIENCE_S
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def hits(retriever):
    return {
        hit.ref.doc_id for found in retriever.search(["cat", "birds"], top_k=9) for hit in found
    }


def test_a_replaced_index_answers(folder, opens):
    retriever = FollowingRetriever(opens, [folder / "index"])
    before, pages = hits(retriever), retriever.info.pages
    assert "animals" in before
    remove(folder / "store", ["animals"])
    assert hits(retriever) == before
    update_index(DocumentStore(folder / "store"), folder / "index")
    wait(lambda: retriever.info.pages < pages)
    assert "animals" not in hits(retriever)
    assert len(opens.calls) == 2


def test_an_index_that_cannot_be_opened_is_tried_again_and_the_former_answers(folder, opens):
    retriever = FollowingRetriever(opens, [folder / "index"])
    before, header = hits(retriever), folder / "index" / HEADER
    whole = header.read_bytes()
    header.write_bytes(b"{}")
    wait(lambda: len(opens.calls) > 2)
    assert hits(retriever) == before
    header.unlink()
    header.write_bytes(whole)
    tried = len(opens.calls)
    wait(lambda: len(opens.calls) > tried)
    assert hits(retriever) == before


def test_the_first_index_has_to_open(folder, opens):
    (folder / "index" / HEADER).write_bytes(b"{}")
    with pytest.raises(UserError, match="damaged"):
        FollowingRetriever(opens, [folder / "index"])


@pytest.mark.parametrize("hybrid", [False, True])
def test_a_stale_index_is_opened_when_it_may_be(folder, hybrid):
    remove(folder / "store", ["animals"])
    store, words = DocumentStore(folder / "store"), {"kind": "bm25", "index": folder / "index"}
    config = RetrieverConfig.model_validate(
        {"kind": "hybrid", "parts": {"words": words}} if hybrid else words
    )
    with pytest.raises(StaleIndexError, match="index build"):
        open_local(config, store)
    found = open_local(config, store, stale=True)
    assert "animals" in hits(found)
    assert set(describe_index(found, store, stale=True).fingerprints.values()) == {STALE}
