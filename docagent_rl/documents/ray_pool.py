"""The work of ingesting on the nodes of a Ray cluster."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.settings import IngestLimits
from docagent_rl.documents.workers import Outcome, WorkerPool

T = TypeVar("T")
R = TypeVar("R")

_TASKS_A_UNIT = 8
_ROW = "row"
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
    """A `WorkerPool` over the nodes of a Ray cluster, through Ray Data.

    Each actor has one CPU and a process of its own that works under the limits, so that limits and errors
    are the same as on one machine. A document goes to one node, a long one in parts. Ray starts the work of
    a node that died anew.

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
        """Run as `WorkerPool.run`, but read `tasks` to its end first.

        Raises:
            Exception: Whatever `function` raises, other than `DocumentError`.
            InfrastructureError: A node does not see source or store, or Ray fails.
        """
        import ray
        import ray.data
        from ray.exceptions import RayError

        units = [{_ROW: _Parcel(tuple(unit))} for unit in _units(tasks)]
        if not units:
            return
        cpus = self._workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        places = min(cpus, len(units))
        data = ray.data.from_items(units, override_num_blocks=len(units)).map_batches(
            _Place,
            fn_constructor_args=(function, self._limits, self._places),
            batch_size=1,
            batch_format="numpy",
            # all at once, but whoever has the others' processors may keep them
            compute=ray.data.ActorPoolStrategy(min_size=1, initial_size=places, max_size=places),
            num_cpus=1,
        )
        try:
            for row in data.iter_rows():
                content = row[_ROW].content
                if isinstance(content, Exception):
                    raise content
                yield from content
        except RayError as error:
            raise InfrastructureError(f"Ray failed: {error}") from error


@dataclass(frozen=True, slots=True)
class _Parcel:
    """Tasks, outcomes, or an error to raise: Ray Data makes arrays of what it knows, but not of this."""

    content: tuple[Any, ...] | Exception


class _Place:
    """An actor, which works on a unit of tasks at a time."""

    def __init__(self, function: Callable[[Any], Any], limits: IngestLimits, places: Places) -> None:
        self._function = function
        self._pool = WorkerPool(1, limits)
        self._places = places

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[_Parcel]]:
        try:
            self._places.check()
            (unit,) = batch[_ROW]
            return {_ROW: [_Parcel(tuple(self._outcomes(unit.content)))]}
        except Exception as error:  # whatever it is: the driver raises it
            return {_ROW: [_Parcel(error)]}

    def _outcomes(self, unit: tuple[Any, ...]) -> Iterator[Outcome]:
        """Yield outcomes up to the first document error: the others of the unit are of the same document."""
        error = None
        for task in unit:
            if error is None:
                (outcome,) = self._pool.run(self._function, [task])
                error = outcome.error
                yield outcome
            else:
                yield Outcome(task, error=error)


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
    from ray.data import DataContext

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    DataContext.get_current().enable_progress_bars = False
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
