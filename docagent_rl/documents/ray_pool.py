"""A pool that runs the tasks of an ingest on the nodes of a Ray cluster."""

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
"""Number of times that Ray restarts a task whose node died."""
_REACH_S = 10


class RayPool:
    """A `WorkerPool` over the nodes of a Ray cluster.

    Each Ray task has one CPU and its own process that works under the limits, so limits and errors
    are the same as on one machine. Ray restarts the tasks of a node that died.

    Args:
        address: `HOST:PORT`, or `auto` for the cluster that runs here. No cluster is started, since
            its ports would be open to the network.
        workers: Maximum number of processes; by default one per CPU of the cluster.
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
        """Run tasks as `WorkerPool.run` does.

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
"""The worker process of this Ray process, kept for its next task."""


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
    """Connect to the running cluster at `HOST:PORT` or `auto`.

    Returns:
        Whether this call connected; False if the process was connected already.

    Raises:
        UserError: There is no cluster.
    """
    import ray

    if ray.is_initialized():
        return False
    remedy = "start one with `ray start --head`, or leave out --ray to use only this machine"
    if address == "local":  # with this address, Ray would start a cluster
        raise UserError(f"--ray needs the address of a running cluster: {remedy}")
    host, _, port = address.rpartition(":")
    try:
        # Ray tries for minutes if nothing listens there, so try to connect first
        if host and port.isdecimal() and "/" not in host:
            socket.create_connection((host, int(port)), timeout=_REACH_S).close()
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except Exception as error:  # Ray has no error type for a cluster that does not answer in time
        raise UserError(f"no Ray cluster at {address!r} ({error}): {remedy}") from error
    return True
