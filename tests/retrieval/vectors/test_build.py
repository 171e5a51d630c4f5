"""Builds that are interrupted, compete, or run on a cluster."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from docagent_rl.base.errors import UserError
from docagent_rl.commands.serve import _config
from docagent_rl.retrieval.indexes import Encoding, build_vectors
from docagent_rl.retrieval.vectors.build import build_index
from docagent_rl.retrieval.vectors.encoding import RayVectors
from docagent_rl.retrieval.vectors.index import VectorIndex
from tests.documents.here import files_of
from tests.retrieval.vectors.conftest import LATE, texts
from tests.retrieval.vectors.encoders import HashingEncoder, hashing


def test_interrupted_builds_go_on_and_end_alike(corpus, built, tmp_path):
    """Kills at every change of a file are in tests/faults."""
    path, asked = tmp_path / "index", []

    class Interrupted(HashingEncoder):
        def encode_pages(self, pages):
            asked.extend(pages)
            if len(asked) > 50:
                raise KeyboardInterrupt
            return super().encode_pages(pages)

    with pytest.raises(KeyboardInterrupt):
        build_index(corpus, Interrupted, path, kind=LATE)
    with pytest.raises(UserError, match=str(path)):
        VectorIndex.open(path)
    done = build_index(corpus, hashing(), path, kind=LATE)
    assert 0 < done.new < done.pages
    assert files_of(path) == files_of(built)
    assert not list(path.glob(".*.tmp"))


def test_builders_take_turns(corpus, built, tmp_path):
    def build(_):
        return build_index(corpus, hashing(), tmp_path / "index", kind=LATE).new

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(build, range(2))) == [0, VectorIndex.open(built).num_pages]
    assert files_of(tmp_path / "index") == files_of(built)


def test_readers_see_one_index_or_the_other(make_store, tmp_path):
    store = make_store(tmp_path, {"a": texts(1, 4), "b": texts(2, 2)})
    queries = HashingEncoder().encode_queries(["the cat sat"])
    stop, found = threading.Event(), []

    def build(salt):
        build_index(store, hashing(salt=salt), tmp_path / "index", kind=LATE, replace=True)

    def scores():
        return VectorIndex.open(tmp_path / "index").scores(queries).tobytes()

    def write():
        while not stop.is_set():
            build("")
            build("x")

    want = {build(salt) or scores() for salt in ("", "x")}
    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        try:
            while len(found) < 20 or set(found) < want:
                found.append(scores())
        finally:
            stop.set()
        writer.result()
    assert set(found) == want


@pytest.mark.slow
def test_a_cluster_builds_the_index_that_one_process_builds(ray_head, store, tmp_path):
    """And is let go, where nobody else has it."""
    import ray

    far = build_vectors(store, tmp_path / "far", "minilm", encoding=Encoding(ray=ray_head, encoders=2))
    assert not ray.is_initialized()
    assert far == build_vectors(store, tmp_path / "near", "minilm")
    assert far.new == far.pages > 0
    assert files_of(tmp_path / "far") == files_of(tmp_path / "near")
    # a server takes the kind of the index that it is given
    assert _config(None, None, tmp_path / "near").kind == "dense"


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
    for vectors, error, named in (
        (RayVectors(_Failing), MemoryError, "3 pages"),
        (RayVectors(_absent), UserError, "/nowhere"),
        (other, UserError, "another model"),
    ):
        with pytest.raises(error, match=named):
            build_index(corpus, vectors, tmp_path / "index", kind=LATE, replace=True)
