"""Time many trajectories that search concurrently: in this process, in Ray actors, or over HTTP.

`python -m benchmarks.retrieval.service --trajectories 256 2000` searches a made corpus by BM25.
Each trajectory asks a few queries of its own, one after the other, as environments do
(`RetrieverService`); each answer is compared with that of the retriever itself. With `--kill`, an
actor or the server is killed in the middle (SIGKILL). Then Ray restarts the actor, and this script
restarts the server, as systemd would.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import yaml

from benchmarks.common import show
from benchmarks.retrieval.made_corpus import WORDS, make_corpus
from docagent_rl.base.errors import InfrastructureError
from docagent_rl.documents.store import DocumentStore
from docagent_rl.envs.search_log import SearchNote, noting
from docagent_rl.envs.services import RetrieverService
from docagent_rl.retrieval.bm25 import BM25Retriever
from docagent_rl.retrieval.config import Backend, RetrieverConfig
from docagent_rl.retrieval.opening import open_retriever

TOP_K = 10
COLUMNS = (
    "backend",
    "trajectories",
    "a second",
    "p50",
    "p99",
    "CPU here",
    "there",
    "bad",
    "retried",
    "back s",
)
"""The columns of the table.

`a second` is searches per second; p50 and p99 of a search are in ms. `CPU here` and `there` are
processor time per search in ms, of this process and of the processes that search. `bad` counts
answers that are missing, duplicate or wrong. `back s` is the longest time without any answer, in
seconds, after the kill.
"""
Pids = Callable[[], Awaitable[list[int]]]
Kill = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Load:
    """The searches of a measurement.

    Args:
        trajectories: the number of trajectories that search concurrently.
        turns: the number of searches of each trajectory.
        doc_ids: ids of all documents; every third search of a trajectory is within one of them.
    """

    trajectories: int
    turns: int
    doc_ids: tuple[str, ...]

    def queries(self) -> list[list[tuple[str, str | None]]]:
        """Return the queries of each trajectory, with the document to search or None for all.

        All queries differ, so that no cache can answer one.
        """
        rng = random.Random(7)
        of_trajectories = []
        for trajectory in range(self.trajectories):
            queries = []
            for turn in range(self.turns):
                query = " ".join([*rng.sample(WORDS, 4), f"s{trajectory}t{turn}"])
                doc_id = rng.choice(self.doc_ids) if turn % 3 == 2 else None
                queries.append((query, doc_id))
            of_trajectories.append(queries)
        return of_trajectories


async def measured(
    service: RetrieverService, load: Load, truth: BM25Retriever, kill: Kill | None, pids: Pids
) -> list[str]:
    """Time every search of a load, compare its answer, and return a row of the table.

    Args:
        service: the service that the trajectories ask.
        load: the searches.
        truth: the retriever whose answers are right.
        kill: kills the service after a quarter of the searches; None to leave it alone.
        pids: returns the ids of the processes that search.
    """
    # by trajectory and turn
    found: dict[tuple[int, int], Any] = {}
    answers: Counter[tuple[int, int]] = Counter()
    ended: list[float] = []
    queries = load.queries()

    async def trajectory(number: int) -> None:
        for turn, (query, doc_id) in enumerate(queries[number]):
            try:
                hits = await service.search(query, doc_id=doc_id, top_k=TOP_K)
            except InfrastructureError as error:
                hits = error
            found[number, turn] = hits
            answers[number, turn] += 1
            ended.append(time.perf_counter())

    searching = [psutil.Process(pid) for pid in await pids()]
    began = time.perf_counter()
    own_cpu_before = time.process_time()
    searching_cpu_before = _cpu(searching)
    with noting() as notes:
        killing = asyncio.create_task(_in_the_middle(kill, ended, load)) if kill else None
        await asyncio.gather(*(trajectory(number) for number in range(load.trajectories)))
        seconds = time.perf_counter() - began
        own_cpu = time.process_time() - own_cpu_before
        # the time of processes that were killed is lost
        searching_cpu = 0.0 if kill else _cpu(searching) - searching_cpu_before
        if killing:
            await killing

    lost = wrong = 0
    for number in range(load.trajectories):
        for turn, (query, doc_id) in enumerate(queries[number]):
            hits = found[number, turn]
            failed = isinstance(hits, InfrastructureError)
            lost += failed or answers[number, turn] != 1
            if not failed:
                wrong += hits != truth.search([query], doc_id=doc_id, top_k=TOP_K)[0]

    searches = load.trajectories * load.turns
    retried = sum(note.tries > 1 for note in notes)
    return [
        *_numbers(notes, load, seconds),
        _ms(own_cpu / searches),
        _ms(searching_cpu / searches),
        str(lost + wrong),
        str(retried),
        f"{max(np.diff(ended)):.1f}" if kill else "",
    ]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f}" if seconds else ""


def _cpu(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


async def _in_the_middle(kill: Kill, ended: list[float], load: Load) -> None:
    while len(ended) < load.trajectories * load.turns // 4:
        await asyncio.sleep(0.005)
    await kill()


def _numbers(notes: list[SearchNote], load: Load, seconds: float) -> list[str]:
    waits = [note.seconds * 1e3 for note in notes]
    p50, p99 = np.percentile(waits, [50, 99])
    return [str(load.trajectories), f"{len(notes) / seconds:.0f}", f"{p50:.0f}", f"{p99:.0f}"]


class Server:
    """`docagent-rl index serve`, in a process of its own."""

    def __init__(self, store: Path, index: Path, options: Any) -> None:
        self._arguments = ["--store", str(store), "--index", str(index)]
        self._arguments += [
            "--max-waiting",
            str(options.max_waiting),
            "--threads",
            str(options.threads),
        ]
        self._process, self.url = self._start("0")

    @property
    def pid(self) -> int:
        """The id of the server's current process."""
        return self._process.pid

    async def kill_and_start(self) -> None:
        """Kill the server and start it again on the same port, as systemd would."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        port = self.url.rpartition(":")[2]
        self._process, _ = await asyncio.to_thread(self._start, port)

    def stop(self) -> None:
        """Kill the server."""
        self._process.kill()
        self._process.wait()

    def _start(self, port: str) -> tuple[subprocess.Popen, str]:
        command = [
            sys.executable,
            "-m",
            "docagent_rl.cli",
            "index",
            "serve",
            "--port",
            port,
            *self._arguments,
        ]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        line = process.stdout.readline()
        return process, next(word for word in line.split() if word.startswith("http://"))


def main() -> None:
    """Measure all backends and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trajectories", type=int, nargs="+", default=[256, 2000])
    parser.add_argument("--turns", type=int, default=4)
    parser.add_argument("--documents", type=int, default=100)
    parser.add_argument("--pages", type=int, default=20, help="pages of a document")
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument(
        "--backends", nargs="+", default=["local", "ray", "http"], choices=list(Backend)
    )
    parser.add_argument("--max-waiting", type=int, default=256)
    parser.add_argument("--threads", type=int, default=8, help="threads of an actor or the server")
    parser.add_argument("--kill", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="service-") as folder:
        store, index = make_corpus(Path(folder), options.documents, options.pages)
        rows = []
        for backend in options.backends:
            rows += _measured_backend(Backend(backend), store, index, options)
        title = f"BM25 over {options.documents * options.pages} pages, {os.cpu_count()} cores"
        show(title, COLUMNS, rows)


def _measured_backend(
    backend: Backend, store: DocumentStore, index: Path, options: Any
) -> list[list[str]]:
    service: dict[str, Any] = {"num_cpus": 0.1, "replicas": options.replicas}
    service |= {"max_waiting": options.max_waiting, "threads": options.threads}
    server = None
    if backend is Backend.HTTP:
        server = Server(store.path, index, options)
        service["url"] = server.url
    if backend is Backend.RAY:
        import ray

        ray.init(address="local", num_cpus=4, include_dashboard=False, log_to_driver=False)
    config = RetrieverConfig.model_validate(
        yaml.safe_load(
            yaml.safe_dump({"backend": backend.value, "service": service, "index": str(index)})
        )
    )
    retriever, truth = open_retriever(config, store), BM25Retriever.load(index)
    pids = _searching(retriever, server)
    asyncio.run(
        _with_close(
            measured(_service(retriever, config), Load(8, 4, ("doc0000",)), truth, None, pids),
            retriever,
        )
    )
    rows = []
    try:
        for trajectories in options.trajectories:
            load = Load(trajectories, options.turns, tuple(store.doc_ids()))
            kills = [None, _killer(backend, retriever, server)] if options.kill else [None]
            for kill in kills:
                if kill is None or backend is not Backend.LOCAL:
                    asking = _service(retriever, config)
                    row = asyncio.run(
                        _with_close(measured(asking, load, truth, kill, pids), retriever)
                    )
                    rows.append([f"{backend.value}{', killed' if kill else ''}", *row])
    finally:
        if server is not None:
            server.stop()
        if backend is Backend.RAY:
            import ray

            ray.shutdown()
    return rows


def _service(retriever: Any, config: RetrieverConfig) -> RetrieverService:
    if config.backend is Backend.LOCAL:
        return RetrieverService(retriever, deadline_s=120)
    return RetrieverService(retriever, deadline_s=120, concurrency=config.service.connections)


async def _with_close(work: Awaitable[list[str]], retriever: Any) -> list[str]:
    try:
        return await work
    finally:
        if hasattr(retriever, "aclose"):
            await retriever.aclose()


def _searching(retriever: Any, server: Server | None) -> Pids:
    """Return a function that returns the ids of the processes that search, other than this one."""

    async def pids() -> list[int]:
        if server is not None:
            return [server.pid]
        replicas = getattr(retriever, "_replicas", None)
        if replicas is None:
            return []
        return [await _pid(handle) for handle in replicas._handles.values()]

    return pids


async def _pid(handle: Any) -> int:
    """Return the process id of an actor; wait for it if it is restarting."""
    from ray.exceptions import ActorUnavailableError

    while True:
        try:
            return (await handle.health.remote())["pid"]
        except ActorUnavailableError:
            await asyncio.sleep(0.2)


def _killer(backend: Backend, retriever: Any, server: Server | None) -> Kill:
    async def kill() -> None:
        if server is not None:
            await server.kill_and_start()
        elif backend is Backend.RAY:
            handle = next(iter(retriever._replicas._handles.values()))
            os.kill(await _pid(handle), signal.SIGKILL)

    return kill


if __name__ == "__main__":
    main()
