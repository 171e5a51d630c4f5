"""Builds that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines.build import CollectionPlace, build_collection
from docagent_rl.retrieval.engines.opening import CollectionIndex
from docagent_rl.retrieval.engines.retriever import EngineRetriever
from tests.retrieval.vectors.conftest import LATE
from tests.retrieval.vectors.encoders import HashingEncoder, hashing

SLOW = """
import sys, time
from docagent_rl.documents import DocumentStore
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.engines import build
from tests.retrieval.vectors.encoders import HashingEncoder
from docagent_rl.retrieval.vectors.index import Kind

class Slow(HashingEncoder):
    def encode_pages(self, pages):
        time.sleep(0.05)
        print("batch", flush=True)
        return super().encode_pages(pages)

build._NUMBERS = 100
where = build.CollectionPlace(SearchEngine.LANCEDB)
build.build_collection(
    DocumentStore(sys.argv[1]), Slow, sys.argv[2], where=where, kind=Kind.LATE_INTERACTION
)
"""


def killed_after(batches: int, *arguments: str) -> None:
    process = subprocess.Popen([sys.executable, "-c", SLOW, *arguments], stdout=subprocess.PIPE, text=True)
    for _ in range(batches):
        assert process.stdout.readline() == "batch\n"
    time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


@pytest.mark.slow
def test_a_build_that_is_killed_goes_on_with_what_it_did_not_finish(corpus, tmp_path):
    where, path = CollectionPlace(SearchEngine.LANCEDB), tmp_path / "index"
    killed_after(2, str(corpus.path), str(path))
    pages = len(list(corpus.pages()))
    done = build_collection(corpus, hashing(), path, where=where, kind=LATE)
    assert (done.pages, done.new < pages) == (pages, True)
    index = CollectionIndex.open(path)
    assert len(index.check(corpus)) == 12
    assert index.problems() == []
    found = EngineRetriever(index, HashingEncoder(), corpus).search(["gold"], top_k=1000)[0]
    assert len(found) == pages - done.blank
