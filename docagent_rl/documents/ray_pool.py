"""The work of ingesting on the nodes of a Ray cluster."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Generator, Iterable, Sequence
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.settings import IngestLimits
from docagent_rl.documents.workers import TaskOutcome, WorkerPool

T = TypeVar("T")
R = TypeVar("R")

_RETRIES = 3
"""Times that Ray starts work anew whose node died."""
_REACH_S = 10


class RayPool:
    """A `WorkerPool` over the nodes of a Ray cluster.

    Each task of Ray has one CPU and a process of its own that works under the limits, so that
    limits and errors are the same as on one machine. Ray starts the work of a node that died anew.

    Args:
        address: `HOST:PORT`, or `auto` for the cluster that runs here. None is started: its ports
            would be open to the network.
        workers: Number of processes at most; by default one a CPU of the cluster.
        limits: As for `WorkerPool`.
        shared: Paths that every node has to see.
    """

    def __init__(
        self, address: str, workers: int | None, limits: IngestLimits, shared: Sequence[Path]
    ) -> None:
        self._started = connect_ray(address)
        self._workers = workers
        self._limits = limits
        self._shared = shared

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *exception: object) -> None:
        import ray

        if self._started:
            ray.shutdown()

    def run(
        self, function: Callable[[T], R], tasks: Iterable[T]
    ) -> Generator[TaskOutcome[T, R], None, None]:
        """Run as `WorkerPool.run`.

        Raises:
            Exception: Whatever `function` raises, other than `DocumentError`.
            InfrastructureError: A node does not see a shared path, or Ray fails.
        """
        import ray
        from ray.exceptions import RayError, RayTaskError

        most = self._workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        work = ray.remote(num_cpus=1, max_retries=_RETRIES)(_outcome)
        waiting = iter(tasks)
        busy = []
        try:
            while True:
                begun = islice(waiting, most - len(busy))
                busy += [work.remote(function, task, self._limits, self._shared) for task in begun]
                if not busy:
                    return
                (done,), busy = ray.wait(busy)
                yield ray.get(done)
        except RayTaskError as error:
            raise error.cause from error
        except RayError as error:
            raise InfrastructureError(f"Ray failed: {error}") from error
        finally:
            for each in busy:
                ray.cancel(each, force=True)


_pool = lru_cache(maxsize=1)(partial(WorkerPool, 1))
"""The process of this process of Ray, kept for its next task."""


def _outcome(
    function: Callable[[T], R], task: T, limits: IngestLimits, shared: Sequence[Path]
) -> TaskOutcome[T, R]:
    for path in shared:
        if not path.exists():
            raise InfrastructureError(
                f"node {socket.gethostname()} does not see {path}: put it on a shared folder"
            )
    (outcome,) = _pool(limits).run(function, [task])
    return outcome


def connect_ray(address: str) -> bool:
    """Connect to a cluster that runs, at `HOST:PORT` or `auto`; return False when this process was
    connected.

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
        if (
            host and port.isdecimal() and "/" not in host
        ):  # Ray tries for minutes where nothing listens
            socket.create_connection((host, int(port)), timeout=_REACH_S).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # of a Ray that does not answer in time it is no type of its own
        raise UserError(f"no Ray cluster at {address!r} ({error}): {remedy}") from error
    return True
