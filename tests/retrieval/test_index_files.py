from __future__ import annotations

import multiprocessing
import random
import time
from multiprocessing.synchronize import Event

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.errors import UserError
from docagent_rl.retrieval.bm25 import BM25Retriever, BM25Settings

_K1 = (0.5, 2.0)
_LOADS = 100


def _write(store, index, k1, begun: Event, stop: Event) -> None:
    retriever = BM25Retriever.build(DocumentStore(store), settings=BM25Settings(k1=k1))
    while not stop.is_set():
        retriever.save(index)
        begun.set()


def test_a_reader_beside_two_writers_always_has_a_whole_index(store, tmp_path):
    """Two processes replace the index as fast as they can; every load answers as one of the two would."""
    index = tmp_path / "index"
    made = [BM25Retriever.build(store, settings=BM25Settings(k1=k1)) for k1 in _K1]
    answers = {one.settings.k1: one.search(["the cat"], top_k=9) for one in made}
    made[0].save(index)
    context = multiprocessing.get_context("spawn")
    stop, begun = context.Event(), [context.Event() for _ in _K1]
    writers = [
        context.Process(target=_write, args=(store.path, index, k1, each, stop))
        for k1, each in zip(_K1, begun, strict=True)
    ]
    for writer in writers:
        writer.start()
    try:
        assert all(each.wait(120) for each in begun)
        seen, failures = set(), []
        loads, deadline = 0, time.monotonic() + 120
        while (loads < _LOADS or seen != set(_K1)) and time.monotonic() < deadline:
            loads += 1
            try:
                loaded = BM25Retriever.load(index)
            except UserError as error:
                failures.append(str(error))
            else:
                assert loaded.search(["the cat"], top_k=9) == answers[loaded.settings.k1]
                seen.add(loaded.settings.k1)
    finally:
        stop.set()
        for writer in writers:
            writer.join(60)
    assert (failures, [writer.exitcode for writer in writers]) == ([], [0, 0])
    assert seen == set(_K1)
    # one header, one folder of arrays, the lock
    assert len(list(index.iterdir())) == 3
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_random_damage_to_an_index_is_named(store, tmp_path):
    """Bits flipped, ends cut, bytes put in: the file is named, always."""
    queries = ["the cat", "grow", "table 3", "birds sing"]
    retriever = BM25Retriever.build(store)
    with pytest.raises(UserError, match=str(tmp_path)):
        BM25Retriever.load(tmp_path)
    retriever.save(tmp_path)
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size]
    assert len(files) == 6
    rng = random.Random(0)
    for path in files:
        whole = path.read_bytes()
        for _ in range(30):
            path.write_bytes(damage(whole, rng))
            with pytest.raises(UserError, match=str(path)):
                BM25Retriever.load(tmp_path)
        path.write_bytes(whole)
    assert BM25Retriever.load(tmp_path).search(queries, top_k=9) == retriever.search(queries, top_k=9)


def damage(whole: bytes, rng: random.Random) -> bytes:
    """Other bytes than `whole`."""
    place, data = rng.randrange(len(whole)), bytearray(whole)
    match rng.randrange(4):
        case 0:
            data[place] ^= 1 << rng.randrange(8)
        case 1:
            del data[place:]
        case 2:
            data[place : place + rng.randrange(1, 9)] = rng.randbytes(16)
        case _:
            data[place] = (data[place] + rng.randrange(1, 256)) % 256
    return bytes(data)


@pytest.mark.parametrize("left", [".lock", "files-0123456789abcdef/data.npy"])
def test_a_first_save_that_was_killed_is_no_obstacle(store, tmp_path, left):
    (tmp_path / "index" / left).parent.mkdir(parents=True)
    (tmp_path / "index" / left).touch()
    retriever = BM25Retriever.build(store)
    retriever.save(tmp_path / "index")
    assert BM25Retriever.load(tmp_path / "index") == retriever


def test_a_file_that_is_missing_is_named(store, tmp_path):
    BM25Retriever.build(store).save(tmp_path)
    (path,) = tmp_path.glob("files-*/indptr.csc.index.npy")
    path.unlink()
    with pytest.raises(UserError, match=str(path)):
        BM25Retriever.load(tmp_path)


def test_a_folder_that_was_damaged_is_made_whole_by_saving_the_same_again(store, tmp_path):
    retriever = BM25Retriever.build(store)
    retriever.save(tmp_path)
    (path,) = tmp_path.glob("files-*/data.csc.index.npy")
    path.write_bytes(path.read_bytes()[:-1])
    retriever.save(tmp_path)
    assert BM25Retriever.load(tmp_path).search(["cat"], top_k=3) == retriever.search(["cat"], top_k=3)
