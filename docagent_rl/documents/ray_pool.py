"""The work of ingesting on the nodes of a Ray cluster."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import groupby, islice
from pathlib import Path
from typing import TypeVar

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.settings import IngestLimits
from docagent_rl.documents.workers import Outcome, WorkerPool

T = TypeVar("T")
R = TypeVar("R")

_TASKS_A_UNIT = 8
_RETRIES = 3
"""Times that Ray starts work anew whose node died."""
_REACH_S = 10


@dataclass(frozen=True, slots=True)
class Places:
    """The paths that every node has to see."""

    source: Path
    """The ingested folder or file."""
    store: Path

    def check(self) -> None:
        """Look at both from here; an `InfrastructureError` names the machine that does not see one."""
        host = socket.gethostname()
        if not self.source.exists():
            raise InfrastructureError(f"node {host} does not see {self.source}: put it on a shared folder")
        try:
            StoreLayout(self.store).require()
        except UserError as error:
            raise InfrastructureError(f"node {host} does not see the store: {error}") from error


class RayPool:
    """A `WorkerPool` over the nodes of a Ray cluster.

    Each task of Ray has one CPU and a process of its own that works under the limits, so that limits and
    errors are the same as on one machine. A document goes to one node, a long one in parts. Ray starts the
    work of a node that died anew.

    Args:
        address: `HOST:PORT`, or `auto` for the cluster that runs here. None is started: its ports would be
            open to the network.
        workers: Number of processes at most; by default one a CPU of the cluster.
        limits: As for `WorkerPool`.
        places: Checked on every node.
    """

    def __init__(self, address: str, workers: int | None, limits: IngestLimits, places: Places) -> None:
        self._started = connect(address)
        self._workers = workers
        self._limits = limits
        self._places = places

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *exception: object) -> None:
        import ray

        if self._started:
            ray.shutdown()

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[Outcome[T, R], None, None]:
        """Run as `WorkerPool.run`.

        Raises:
            Exception: Whatever `function` raises, other than `DocumentError`.
            InfrastructureError: A node does not see source or store, or Ray fails.
        """
        import ray
        from ray.exceptions import RayError, RayTaskError

        most = self._workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        work = ray.remote(num_cpus=1, max_retries=_RETRIES)(_outcomes)
        units, busy = _units(tasks), []
        try:
            while True:
                begun = islice(units, most - len(busy))
                busy += [work.remote(function, unit, self._limits, self._places) for unit in begun]
                if not busy:
                    return
                (done,), busy = ray.wait(busy)
                yield from ray.get(done)
        except RayTaskError as error:
            raise error.cause from error
        except RayError as error:
            raise InfrastructureError(f"Ray failed: {error}") from error
        finally:
            for each in busy:
                ray.cancel(each, force=True)


_pool = lru_cache(maxsize=1)(partial(WorkerPool, 1))
"""The process of this process of Ray, kept for its next unit."""


def _outcomes(
    function: Callable[[T], R], unit: list[T], limits: IngestLimits, places: Places
) -> list[Outcome[T, R]]:
    """Return outcomes; those after the first document error are it: the tasks are of the same document."""
    places.check()
    found: list[Outcome[T, R]] = []
    for task in unit:
        if found and found[-1].error:
            found.append(Outcome(task, error=found[-1].error))
        else:
            found += _pool(limits).run(function, [task])
    return found


def _units(tasks: Iterable[T]) -> Iterator[list[T]]:
    """Yield consecutive tasks of the same document, not too many together; others one by one."""
    numbered = enumerate(tasks)
    for _, group in groupby(numbered, key=lambda pair: getattr(pair[1], "doc_id", pair[0])):
        part = iter([task for _, task in group])
        while unit := list(islice(part, _TASKS_A_UNIT)):
            yield unit


def connect(address: str) -> bool:
    """Connect to a cluster that runs, at `HOST:PORT` or `auto`; return False when this process was connected.

    Raises:
        UserError: There is no cluster.
    """
    import ray

    if ray.is_initialized():
        return False
    remedy = "start one with `ray start --head`, or leave --ray out for this machine alone"
    if address == "local":  # for Ray: start one
        raise UserError(f"--ray names a cluster that runs: {remedy}")
    host, _, port = address.rpartition(":")
    try:
        if host and port.isdecimal() and "/" not in host:  # Ray tries for minutes where nothing listens
            socket.create_connection((host, int(port)), timeout=_REACH_S).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"no Ray cluster at {address!r} ({error}): {remedy}") from error
    return True
