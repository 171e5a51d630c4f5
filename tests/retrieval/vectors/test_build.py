"""Builds that are interrupted, compete, or run on a cluster."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from docagent_rl.documents import DocumentStore
from docagent_rl.errors import InfrastructureError, UserError
from docagent_rl.retrieval.vectors.encoding import PageBatch
from docagent_rl.retrieval.vectors.header import Kind
from docagent_rl.retrieval.vectors.index import VectorIndex
from docagent_rl.retrieval.vectors.ray_encoding import RayResources, RayVectors
from tests.retrieval.vectors.encoders import HashingEncoder, MiniLM, hashing, mini_lm
from tests.retrieval.vectors.test_index import LATE, QUERIES, files_of

BUILD = """
import sys
import torch
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.vectors import plan
from docagent_rl.retrieval.vectors.header import Kind
from docagent_rl.retrieval.vectors.index import VectorIndex
from tests.retrieval.vectors.encoders import hashing
plan.PAGES_A_SHARD = 15
print("ready", flush=True)
done = VectorIndex.build(
    DocumentStore(sys.argv[1]), hashing(delay=float(sys.argv[3])), sys.argv[2], kind=Kind.LATE_INTERACTION
)
print("encoded", done.encoded, flush=True)
"""


def start(store: DocumentStore, path: Path, delay: float) -> subprocess.Popen[str]:
    """A process that builds, as soon as it is about to."""
    command = [sys.executable, "-c", BUILD, str(store.path), str(path), str(delay)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3])
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.slow
def test_killed_builds_go_on_and_end_alike(corpus: DocumentStore, built: Path, tmp_path: Path) -> None:
    random, path = Random(7), tmp_path / "index"

    def finished() -> int:
        return len(list(path.glob("shard-*")))

    for _ in range(3):
        before, process = finished(), start(corpus, path, 0.05)
        while finished() <= before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(random.uniform(0, 0.6))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert finished() > before
        with pytest.raises(UserError, match="is not an index"):
            VectorIndex.open(path)
    said, _ = start(corpus, path, 0).communicate()
    assert 0 < int(said.split()[1]) < VectorIndex.open(built).num_pages
    VectorIndex.open(path).check(corpus)
    assert files_of(path) == files_of(built)
    assert not list(path.glob(".*.tmp"))


@pytest.mark.slow
def test_two_builders_take_turns(corpus: DocumentStore, built: Path, tmp_path: Path) -> None:
    builders = [start(corpus, tmp_path / "index", 0.005) for _ in range(2)]
    said = sorted(builder.communicate(timeout=120)[0] for builder in builders)
    pages = VectorIndex.open(built).num_pages
    assert said == ["encoded 0\n", f"encoded {pages}\n"]
    assert files_of(tmp_path / "index") == files_of(built)


def test_readers_see_one_index_or_the_other(corpus: DocumentStore, index: Path) -> None:
    want = {
        salt: VectorIndex.build(corpus, hashing(salt=salt), index.parent / f"of{salt}", kind=LATE)
        and VectorIndex.open(index.parent / f"of{salt}").scores(QUERIES).tobytes()
        for salt in ("", "x")
    }
    stop, failures, seen = threading.Event(), [], set()

    def read() -> None:
        while not stop.is_set():
            try:
                found = VectorIndex.open(index).scores(QUERIES).tobytes()
            except Exception as error:  # a reader is to meet none of any kind
                failures.append(error)
            else:
                seen.add(next((salt for salt, scores in want.items() if scores == found), "other"))

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for number in range(8):
        VectorIndex.build(corpus, hashing(salt="x" * (number % 2 == 0)), index, kind=LATE, replace=True)
    stop.set()
    for reader in readers:
        reader.join()
    assert not failures
    assert seen == {"", "x"}


def test_resources_that_would_join_decoding_and_encoding_are_refused() -> None:
    with pytest.raises(UserError, match=r"num_cpus and decoding_cpus are both 0\.5"):
        RayResources(num_cpus=0.5)
    with pytest.raises(UserError, match="encoders=0"):
        RayResources(encoders=0)
    assert RayResources(num_cpus=0.5, num_gpus=1).encoders == 1


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    import ray

    ray.init(
        num_cpus=4,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="error",
        object_store_memory=200_000_000,
    )
    yield
    ray.shutdown()


@pytest.mark.slow
def test_a_cluster_makes_the_same_files(
    cluster: None, corpus: DocumentStore, built: Path, tmp_path: Path, small_shards: int
) -> None:
    vectors = RayVectors(hashing(), RayResources(encoders=3))
    VectorIndex.build(corpus, vectors, tmp_path / "index", kind=LATE)
    assert files_of(tmp_path / "index") == files_of(built)
    assert VectorIndex.build(corpus, vectors, tmp_path / "index", kind=LATE).encoded == 0


@pytest.mark.slow
def test_pages_are_decoded_apart_from_the_encoder(cluster: None, corpus: DocumentStore) -> None:
    vectors = RayVectors(hashing())
    data = vectors._dataset(corpus.path, [PageBatch("doc-00", 1, 1), PageBatch("doc-01", 1, 6)], 1)
    found = data.materialize()
    assert found.count() == 2
    stages = found.stats()
    assert "MapBatches(_Decode)" in stages
    assert "MapBatches(_Encode)" in stages
    assert "_Decode)->MapBatches(_Encode" not in stages


@pytest.mark.slow
def test_a_cluster_runs_a_real_model(cluster: None, store: DocumentStore, tmp_path: Path) -> None:
    VectorIndex.build(store, RayVectors(mini_lm), tmp_path / "ray", kind=Kind.DENSE)
    VectorIndex.build(store, mini_lm, tmp_path / "local", kind=Kind.DENSE)
    assert files_of(tmp_path / "ray") == files_of(tmp_path / "local")
    assert VectorIndex.open(tmp_path / "ray").header.source.dim == MiniLM.dim


class _Failing(HashingEncoder):
    def encode_pages(self, pages):
        raise MemoryError("no room for 3 pages")


def _absent() -> HashingEncoder:
    raise UserError("encoder.model=/nowhere: no such folder")


@pytest.mark.slow
def test_failures_of_workers_are_raised_here(cluster: None, corpus: DocumentStore, tmp_path: Path) -> None:
    with pytest.raises(MemoryError, match="no room for 3 pages"):
        VectorIndex.build(corpus, RayVectors(_Failing), tmp_path / "a", kind=LATE)
    with pytest.raises(UserError, match="/nowhere: no such folder"):
        VectorIndex.build(corpus, RayVectors(_absent), tmp_path / "b", kind=LATE)
    vectors = RayVectors(hashing())
    vectors._facts = RayVectors(hashing(salt="other")).facts()
    with pytest.raises(UserError, match="opens another model under the name of the encoder"):
        VectorIndex.build(corpus, vectors, tmp_path / "c", kind=LATE)


def test_there_is_no_cluster_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ray.is_initialized", lambda: False)
    with pytest.raises(InfrastructureError, match="no Ray cluster"):
        RayVectors(hashing())
