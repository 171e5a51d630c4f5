"""Saved indexes: whole, or refused."""

from __future__ import annotations

import json
import multiprocessing
import random
import shutil
from multiprocessing.synchronize import Event

import numpy as np
import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings

WORDS = ["cat", "the", "grow", "birds", "table", "3", "zebra"]
ARRAYS = ("data", "indices", "indptr")


@pytest.fixture
def index(saved, tmp_path):
    """A copy of the saved index, to be changed."""
    return shutil.copytree(saved, tmp_path / "index")


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_saved_and_loaded_it_answers_the_same(bm25, store, saved, tmp_path):
    loaded = BM25Retriever.load(saved)
    loaded.check(store)
    assert (loaded, loaded.settings, loaded.num_pages) == (bm25, bm25.settings, 10)
    assert all(isinstance(loaded._index.scores[name], np.memmap) for name in ARRAYS)
    for doc_id in (None, "animals"):
        assert loaded.search(WORDS, doc_id=doc_id, top_k=4) == bm25.search(WORDS, doc_id=doc_id, top_k=4)
    BM25Retriever.build(store).save(tmp_path / "again")
    assert contents(tmp_path / "again") == contents(saved)
    assert len(contents(saved)) > 5


def test_saving_replaces_an_index_and_nothing_else(bm25, index, tmp_path):
    bm25.save(index)
    assert BM25Retriever.load(index) == bm25
    precious = tmp_path / "data" / "precious.txt"
    precious.parent.mkdir()
    precious.touch()
    for target in (precious.parent, precious):
        with pytest.raises(UserError, match=target.name):
            bm25.save(target)
    assert precious.exists()


@pytest.mark.parametrize("name", ["numpy.save", "docagent_rl.retrieval.index_files.atomic_write"])
def test_a_save_that_fails_leaves_the_old_index(bm25, store, index, tmp_path, monkeypatch, name):
    before, other = contents(index), BM25Retriever.build(store, settings=BM25Settings(k1=0.5))

    def fail(*args, **options):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(name, fail)
        with pytest.raises(UserError, match=r"index.*disk full"):
            other.save(index)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
    assert BM25Retriever.load(index) == bm25
    assert before.items() <= contents(index).items()
    # what the failed save left goes with the next one
    bm25.save(index)
    assert before == contents(index)


@pytest.mark.parametrize(
    "left",
    [
        "index/.lock",
        "index/.abc.tmp",
        "index/files-0123456789abcdef",
        ".index.ab12_xyz.tmp",
        ".index.ab12_xyz.old/d",
    ],
)
def test_what_killed_writers_left_goes_with_the_next_save(bm25, tmp_path, left):
    """Of this version inside of the folder, of earlier ones beside it."""
    if left.endswith(".lock"):
        (tmp_path / "index").mkdir()
        (tmp_path / left).touch()
    else:
        (tmp_path / left).mkdir(parents=True)
        (tmp_path / left / "data.csc.index.npy").touch()
    (tmp_path / ".index.mine").mkdir()
    bm25.save(tmp_path / "index")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".index.mine", "index"]
    assert len(list((tmp_path / "index").iterdir())) == 3
    assert BM25Retriever.load(tmp_path / "index") == bm25


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


def test_an_index_of_an_earlier_version_loads_with_a_warning(bm25, index, caplog):
    _flatten(index)
    old = BM25Retriever.load(index)
    assert old == bm25
    assert old.search(WORDS, top_k=4) == bm25.search(WORDS, top_k=4)
    assert len(caplog.records) == 1
    bm25.save(index)
    assert not list(index.glob("*.npy"))
    assert BM25Retriever.load(index) == bm25
    assert len(caplog.records) == 1


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("data", lambda array: array * np.nan),
        ("data", lambda array: array[1:]),
        ("data", lambda array: np.array([{}], dtype=object)),  # pickled
        ("indices", lambda array: array + 100),
        ("indptr", lambda array: array[::-1]),
        ("indptr", lambda array: array.astype(np.float32)),
    ],
)
def test_without_checksums_arrays_that_do_not_fit_are_refused(index, name, change):
    _flatten(index)
    path = index / f"{name}.csc.index.npy"
    np.save(path, change(np.load(path)), allow_pickle=True)
    with pytest.raises(UserError, match=str(index)):
        BM25Retriever.load(index)


def damage(whole: bytes, rng: random.Random) -> bytes:
    """Other bytes than `whole`."""
    place, data = rng.randrange(len(whole)), bytearray(whole)
    match rng.randrange(3):
        case 0:
            data[place] ^= 1 << rng.randrange(8)
        case 1:
            del data[place:]
        case _:
            data[place : place + rng.randrange(1, 9)] = rng.randbytes(16)
    return bytes(data)


def test_random_damage_to_an_index_is_named_and_mended_by_the_same_again(bm25, index, tmp_path):
    """Bits flipped, ends cut, bytes put in, a file gone: the file is named, always."""
    with pytest.raises(UserError, match=str(tmp_path)):
        BM25Retriever.load(tmp_path)
    files = [path for path in index.rglob("*") if path.is_file() and path.stat().st_size]
    assert len(files) == 6
    rng = random.Random(0)
    for path in files:
        whole = path.read_bytes()
        for _ in range(15):
            path.write_bytes(damage(whole, rng))
            with pytest.raises(UserError, match=str(path)):
                BM25Retriever.load(index)
        path.write_bytes(whole)
    for change in (lambda path: path.write_bytes(path.read_bytes()[:-1]), lambda path: path.unlink()):
        (path,) = index.glob("files-*/data.csc.index.npy")
        change(path)
        with pytest.raises(UserError, match=str(path)):
            BM25Retriever.load(index)
        bm25.save(index)
        assert BM25Retriever.load(index).search(WORDS, top_k=9) == bm25.search(WORDS, top_k=9)


_K1 = (0.5, 2.0)


def _write(store, index, k1, begun: Event, stop: Event) -> None:
    retriever = BM25Retriever.build(DocumentStore(store), settings=BM25Settings(k1=k1))
    while not stop.is_set():
        retriever.save(index)
        begun.set()


@pytest.mark.slow
def test_a_reader_beside_two_writers_always_has_a_whole_index(store, tmp_path):
    """Two processes replace the index as fast as they can; every load answers as one of the two would."""
    index = tmp_path / "index"
    made = [BM25Retriever.build(store, settings=BM25Settings(k1=k1)) for k1 in _K1]
    answers = {one.settings.k1: one.search(["the cat"], top_k=9) for one in made}
    made[0].save(index)
    context = multiprocessing.get_context("spawn")
    stop, begun = context.Event(), [context.Event() for _ in _K1]
    writers = [
        context.Process(target=_write, args=(store.path, index, k1, each, stop), daemon=True)
        for k1, each in zip(_K1, begun, strict=True)
    ]
    for writer in writers:
        writer.start()
    try:
        assert all(each.wait(300) for each in begun)
        seen, loads = set(), 0
        while loads < 60 or seen != set(_K1):
            loads += 1
            loaded = BM25Retriever.load(index)
            assert loaded.search(["the cat"], top_k=9) == answers[loaded.settings.k1]
            seen.add(loaded.settings.k1)
    finally:
        stop.set()
        for writer in writers:
            writer.join(300)
    assert [writer.exitcode for writer in writers] == [0, 0]
    # one header, one folder of arrays, the lock
    assert len(list(index.iterdir())) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["index"]
