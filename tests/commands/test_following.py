"""A folder is followed from week to week: one command updates the index, and the server uses the
new one without interruption.
"""

import shutil
import subprocess
import sys
import threading
import time

import httpx2
import pytest

from docagent_rl.documents.store import DocumentStore
from docagent_rl.documents.upkeep import remove
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.service.following import LOOK_S
from tests.documents.conftest import write_pdf
from tests.documents.here import ingest_here
from tests.retrieval.service.conftest import running

_PATIENCE_S = 120


def word(number):
    return f"subject{number}word"


def command(*words):
    line = [sys.executable, "-m", "docagent_rl.cli", *map(str, words)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


class Asking:
    """A client that repeats a search on a server, and collects errors."""

    def __init__(self, url, query):
        self.url, self.query = url, query
        self.asked, self.failed, self._done = 0, [], threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._done.set()
        self._thread.join()

    def _ask(self):
        while not self._done.is_set():
            try:
                if found(self.url, self.query) == []:
                    self.failed.append("no hits")
            except (httpx2.HTTPError, AssertionError) as error:
                self.failed.append(repr(error))
            self.asked += 1


def found(url, query):
    """Return the documents of the hits."""
    reply = httpx2.post(f"{url}/v1/search", json={"queries": [query], "top_k": 5}, timeout=60)
    assert reply.status_code == 200, reply.text
    return [doc_id for doc_id, _, _ in reply.json()["results"][0]]


def wait_for(url, query, doc_ids):
    """Wait until the server has looked at its index, which is already the new one."""
    end = time.monotonic() + _PATIENCE_S
    while found(url, query) != doc_ids:
        assert time.monotonic() < end
        time.sleep(LOOK_S / 5)


def walk(folder, number):
    """Return the output of the command over this many documents, of which three change, two are
    removed and one is renamed.
    """
    inbox, store, index = folder / "inbox", folder / "store", folder / "index"
    for each in range(number):
        write_pdf(inbox / f"year{each % 3}" / f"{each}.pdf", [f"everydocument {word(each)}"])
    first = "ingest", inbox, "--store", store, "--dpi", 20, "--mirror"
    assert command(*first)[0] == 0
    assert command("index", "build", "--store", store, "--out", index)[0] == 0
    with running(DocumentStore(store), index) as (_, url), Asking(url, "everydocument") as asking:
        assert found(url, word(3)) == ["year0/3"]
        for each in (0, 1, 2):
            write_pdf(
                inbox / f"year{each}" / f"{each}.pdf", [f"everydocument changed {word(each)}"]
            )
        for each in (3, 4):
            (inbox / f"year{each % 3}" / f"{each}.pdf").unlink()
        (inbox / "year2" / "5.pdf").rename(inbox / "year0" / "renamed.pdf")
        status, told = command(*first, "--index", index)
        assert status == 0, told
        wait_for(url, word(5), ["year0/renamed"])
        for each in (3, 4):
            assert found(url, word(each)) == []
        assert sorted(found(url, "changed")) == ["year0/0", "year1/1", "year2/2"]
        assert httpx2.get(f"{url}/v1/info").json()["documents"] == number - 2
        assert httpx2.get(f"{url}/v1/health").status_code == 200
    assert asking.asked > 0
    assert asking.failed == []
    assert "all intact" in command("check", store, index)[1]
    assert command("index", "check", "--index", index, "--store", store)[0] == 0
    return told


@pytest.mark.slow
def test_a_folder_changes_and_the_served_index_answers_by_it_after_one_command(tmp_path):
    told = walk(tmp_path, 12)
    assert "4 documents ingested (4 pages), 3 of them replaced, 1 of them from pages" in told
    assert "; 6 unchanged; 3 removed; 0 failed" in told


@pytest.mark.slow
def test_a_server_starts_while_its_index_waits_for_an_update(tmp_path):
    for name in ("a", "b", "c"):
        write_pdf(tmp_path / "inbox" / f"{name}.pdf", [f"everydocument {name}{name}"])
    ingest_here(tmp_path / "inbox", tmp_path / "store")
    BM25Retriever.build(DocumentStore(tmp_path / "store")).save(tmp_path / "index")
    remove(tmp_path / "store", ["c"])
    with running(DocumentStore(tmp_path / "store"), tmp_path / "index") as (_, url):
        assert found(url, "aa") == ["a"]
        assert httpx2.get(f"{url}/v1/info").json()["fingerprints"] == {"text": "stale"}
        assert command("index", "update", tmp_path / "index", "--store", tmp_path / "store")[0] == 0
        wait_for(url, "cc", [])
        assert found(url, "aa") == ["a"]
        assert httpx2.get(f"{url}/v1/info").json()["documents"] == 2
        # an index that is damaged, or taken away, is not opened
        shutil.rmtree(tmp_path / "index")
        assert found(url, "bb") == ["b"]
