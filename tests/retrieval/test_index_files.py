"""Saved indexes are complete or refused; kills and full disks are tested in tests/faults."""

import json
import resource
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import seal
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings
from tests.documents.here import files_of

WORDS = ["cat", "the", "grow", "birds", "table", "3", "zebra"]


@pytest.fixture
def index(saved, tmp_path):
    """Return a copy of the saved index that the test may change."""
    return shutil.copytree(saved, tmp_path / "index")


def test_saved_and_loaded_it_answers_the_same(bm25, store, saved, tmp_path):
    loaded = BM25Retriever.load(saved)
    loaded.check(store)
    assert (loaded.settings, loaded.num_pages) == (bm25.settings, 10)
    assert isinstance(loaded._index.scores["data"], np.memmap)
    for doc_id in (None, "animals"):
        assert loaded.search(WORDS, doc_id=doc_id, top_k=4) == bm25.search(
            WORDS, doc_id=doc_id, top_k=4
        )
    BM25Retriever.build(store).save(tmp_path / "again")
    assert files_of(tmp_path / "again") == files_of(saved)
    assert len(files_of(saved)) == 7


@pytest.mark.parametrize("missing", [1, 5000])
def test_a_disk_that_is_full_is_told_as_such(make_store, tmp_path, missing):
    """numpy reports a full disk without an error number, or not at all if only the last bytes of an
    array are missing.
    """
    words = [" ".join(f"w{page}x{number}" for number in range(9)) for page in range(300)]
    retriever = BM25Retriever.build(make_store(tmp_path / "corpus", {"a": words}))
    retriever.save(tmp_path / "whole")
    arrays = [path.stat().st_size for path in (tmp_path / "whole").rglob("*.npy")]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(arrays) - missing, before[1]))
    try:
        with pytest.raises(UserError, match=r"index \(.*\): free some space"):
            retriever.save(tmp_path / "index")
        assert not (tmp_path / "index" / "docagent_index.json").exists()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_saving_replaces_an_index_and_nothing_else(bm25, index, tmp_path):
    bm25.save(index)
    assert BM25Retriever.load(index).search(WORDS, top_k=9) == bm25.search(WORDS, top_k=9)
    precious = tmp_path / "data" / "precious.txt"
    precious.parent.mkdir()
    precious.touch()
    for target in (precious.parent, precious):
        for use in (bm25.save, BM25Retriever.load):
            with pytest.raises(UserError, match=target.name):
                use(target)
    assert precious.exists()


def test_an_index_of_other_words_is_refused(index):
    """The tokens of an earlier version were made by other rules, so queries would miss them."""
    path = index / "docagent_index.json"
    header = json.loads(path.read_text())
    del header["checksum"]
    path.write_text(seal(json.dumps({**header, "schema_version": 2}, indent=1)))
    with pytest.raises(UserError, match="schema_version"):
        BM25Retriever.load(index)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:-3] + b"x" + data[-2:], None]
)
def test_damage_is_named_and_mended_by_saving_the_same_again(bm25, index, damage):
    for path in [path for path in index.rglob("*") if path.is_file() and path.stat().st_size]:
        data = path.read_bytes()
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage(data))
        with pytest.raises(UserError, match=str(path if damage else index)):
            BM25Retriever.load(index)
        if path.parent != index:
            bm25.save(index)
            assert path.read_bytes() == data
        path.write_bytes(data)
    assert BM25Retriever.load(index).search(WORDS, top_k=9) == bm25.search(WORDS, top_k=9)


def test_what_killed_writers_left_goes_with_the_next_save(bm25, index):
    for name in (".abc.tmp", "files-0123456789abcdef"):
        (index / name).mkdir()
        (index / name / "data.npy").touch()
    bm25.save(index)
    # one header, one folder of arrays, the lock
    assert len(list(index.iterdir())) == 3


def test_a_reader_beside_two_writers_always_has_a_whole_index(store, index):
    """Every load yields one of the two indexes."""
    made = [BM25Retriever.build(store, settings=BM25Settings(k1=k1)) for k1 in (0.5, 2.0)]
    answers = {one.settings.k1: one.search(WORDS, top_k=9) for one in made}
    stop, seen = threading.Event(), set()

    def write(one):
        while not stop.is_set():
            one.save(index)

    with ThreadPoolExecutor(2) as pool:
        writers = [pool.submit(write, one) for one in made]
        try:
            while not answers.keys() <= seen:
                loaded = BM25Retriever.load(index)
                seen.add(loaded.settings.k1)
                if expected := answers.get(loaded.settings.k1):
                    assert loaded.search(WORDS, top_k=9) == expected
        finally:
            stop.set()
        assert [writer.result() for writer in writers] == [None, None]
    assert len(list(index.iterdir())) == 3
