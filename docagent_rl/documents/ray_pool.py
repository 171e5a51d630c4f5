"""The work of ingesting on the nodes of a Ray cluster."""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any, TypeVar

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.documents.layout import StoreLayout
from docagent_rl.documents.limits import IngestLimits
from docagent_rl.documents.workers import Outcome, WorkerPool

T = TypeVar("T")
R = TypeVar("R")

_TASKS_A_UNIT = 8
_ROW = "row"
_REACH_S = 10


@dataclass(frozen=True, slots=True)
class Places:
    """What every node is to see under the same path.

    Args:
        source: the ingested folder or file.
        store: the folder of the store.
    """

    source: Path
    store: Path

    def check(self) -> None:
        """Look at both from here.

        Raises:
            InfrastructureError: one is not there; the message names the machine.
        """
        host = socket.gethostname()
        if not self.source.exists():
            raise InfrastructureError(f"node {host} does not see {self.source}: put it on a shared folder")
        try:
            StoreLayout(self.store).require()
        except UserError as error:
            raise InfrastructureError(f"node {host} does not see the store: {error}") from error


class RayPool:
    """As `WorkerPool`, over the nodes of a cluster through Ray Data.

    Each place in the cluster is an actor of one CPU with a process of its own that works under the limits,
    so that what a page may take, and what is said of one that takes more, is the same everywhere. A document
    goes to one node, a long one in parts. Ray starts anew what was on a node that died.

    Args:
        address: Of the cluster: `HOST:PORT`, or `auto` for the one that runs here. None is started: its
            ports would be open to the network.
        workers: Number of processes at most; by default one a CPU of the cluster.
        limits: As for `WorkerPool`.
        places: Checked on every node.

    Raises:
        UserError: There is no cluster at the address.
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
        """As `WorkerPool.run`, but that `tasks` is read to its end first.

        Raises:
            Exception: Whatever `function` raises, other than `DocumentError`.
            InfrastructureError: A node does not see source or store, or Ray fails.
        """
        import ray.data
        from ray.exceptions import RayError

        units = [{_ROW: _Unit(tuple(unit))} for unit in _units(tasks)]
        if not units:
            return
        places = min(self._size(), len(units))
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
                answer = row[_ROW]
                if answer.error is not None:
                    raise answer.error
                yield from answer.outcomes
        except RayError as error:
            raise InfrastructureError(f"Ray failed: {error}") from error

    def _size(self) -> int:
        import ray

        return self._workers or max(1, int(ray.cluster_resources().get("CPU", 1)))


@dataclass(frozen=True, slots=True)
class _Unit:
    """Tasks that go together: Ray Data makes arrays of what it knows, numbers and bytes, but not of this."""

    tasks: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Answer:
    """What became of a unit."""

    outcomes: tuple[Outcome, ...]
    error: Exception | None = None
    """What is to be raised where the run was asked for."""


class _Place:
    """What an actor does: a unit of tasks at a time."""

    def __init__(self, function: Callable[[Any], Any], limits: IngestLimits, places: Places) -> None:
        self._function = function
        self._pool = WorkerPool(1, limits)
        self._places = places

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, list[Any]]:
        try:
            self._places.check()
            (unit,) = batch[_ROW]
            return {_ROW: [_Answer(tuple(self._outcomes(unit.tasks)))]}
        except Exception as error:  # whatever it is: the driver raises it
            return {_ROW: [_Answer((), error)]}

    def _outcomes(self, unit: Sequence[Any]) -> Iterator[Outcome]:
        """Ends with the first document error: the others of the unit are of the same document."""
        for position, task in enumerate(unit):
            (outcome,) = self._pool.run(self._function, [task])
            yield outcome
            if outcome.error is not None:
                yield from (Outcome(other, error=outcome.error) for other in unit[position + 1 :])
                return


def _units(tasks: Iterable[T]) -> Iterator[list[T]]:
    """Consecutive tasks of the same document, not too many together; others one by one."""
    numbered = enumerate(tasks)
    for _, group in groupby(numbered, key=lambda pair: getattr(pair[1], "doc_id", pair[0])):
        part = iter([task for _, task in group])
        while unit := list(islice(part, _TASKS_A_UNIT)):
            yield unit


def connect(address: str) -> bool:
    """Connect to a cluster that runs.

    Args:
        address: `HOST:PORT`, or `auto`.

    Returns:
        False when this process was connected already.

    Raises:
        UserError: there is no cluster.
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
    try:
        _reach(address)
        ray.init(address=address, logging_level=logging.ERROR, log_to_driver=False)
    except (OSError, ValueError, RuntimeError) as error:
        raise UserError(f"no Ray cluster at {address!r} ({error}): {remedy}") from error
    return True


def _reach(address: str) -> None:
    """Fail at once where nothing listens: Ray tries for minutes.

    Raises:
        OSError: nothing does.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdecimal() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=_REACH_S).close()
