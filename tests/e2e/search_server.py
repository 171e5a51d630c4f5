"""A search server on a collection of an engine, used by a run of the trainer and killed once."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import psutil

from docagent_rl.documents.store import DocumentStore
from docagent_rl.lab.tiny.indexes import make_retriever
from docagent_rl.lab.tiny.workspace import DemoPaths
from docagent_rl.retrieval.config import SearchEngine
from docagent_rl.retrieval.indexes import build_vectors


class SearchServer:
    """The process of `docagent-rl index serve` on a LanceDB collection of the pages of a demo, with
    late interaction.

    Args:
        folder: for the model, the collection and what the server prints.
        workspace: the demo.
        outage_s: seconds between its death and its next start.
    """

    def __init__(self, folder: Path, workspace: Path, outage_s: float) -> None:
        self._folder, self._outage_s = folder, outage_s
        self._store = DemoPaths(workspace).store
        self._died: float | None = None
        self.url = ""
        self.starts = 0

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        model = self._folder / "model"
        make_retriever(model)
        build_vectors(
            DocumentStore(self._store),
            self._folder / "index",
            str(model),
            engine=SearchEngine.LANCEDB,
        )
        self._start("0")
        while "http://" not in (said := self._log.read_text()):
            assert self._process.poll() is None, said
            time.sleep(0.1)
        self.url = next(word for word in said.split() if word.startswith("http://"))
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
        self._process.wait()

    def break_once(self) -> None:
        """Kill the server while a client is connected, and start it again some seconds later; this
        is called often.
        """
        if self._died is None:
            if self._connected():
                self._process.kill()
                self._process.wait()
                self._died = time.monotonic()
        elif self.starts == 1 and time.monotonic() > self._died + self._outage_s:
            self._start(self.url.rpartition(":")[2])

    def _connected(self) -> bool:
        connections = psutil.Process(self._process.pid).net_connections("tcp")
        return any(each.status == psutil.CONN_ESTABLISHED for each in connections)

    def _start(self, port: str) -> None:
        command = [sys.executable, "-m", "docagent_rl.cli", "index", "serve", "--port", port]
        command += ["--store", str(self._store), "--index", str(self._folder / "index")]
        with self._log.open("a") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        self.starts += 1

    @property
    def _log(self) -> Path:
        return self._folder / "server.txt"
