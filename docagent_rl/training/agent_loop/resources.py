"""The memory, threads, image cache and gauges of an agent worker."""

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import psutil
from omegaconf import DictConfig

from docagent_rl.rollout.images import (
    CAPACITY,
    EncodedImage,
    ImageCache,
    ImageEncoder,
    ImageSettings,
    cores,
)
from docagent_rl.training.agent_loop.output import IMAGES, DocAgentLoopOutput

FREE_SHARE = 0.5
"""The share of a node's free memory for the trajectories of all its agent workers."""
STORE_SHARE = 1 / 3
"""The share of Ray's object store for images; the workers' copies are at most as large again."""
TOKEN_BYTES = 400
"""Bytes per token in the lists of a ledger and a row, as Python objects."""
INTERVAL_S = 0.5
"""Seconds between two measurements of the event loop's lag."""
FIRST = 32
"""Number of concurrent trajectories until the first one has ended and its size is known."""


class Admission:
    """A queue that admits trajectories in order as long as their memory fits a budget in bytes.

    Each trajectory counts as the largest one so far. At least one is always admitted, whatever its
    size.
    """

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._largest = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self.playing = 0

    @property
    def waiting(self) -> int:
        """The number of trajectories that have not been admitted yet."""
        return len(self._waiting)

    @property
    def places(self) -> int:
        """The number of trajectories that may play concurrently."""
        return max(1, self._budget // self._largest) if self._largest else FIRST

    @asynccontextmanager
    async def trajectory(self) -> AsyncGenerator[None, None]:
        """Wait for admission, and occupy a place while a trajectory plays."""
        await self._enter()
        try:
            yield
        finally:
            self.playing -= 1
            self._admit()

    def weigh(self, nbytes: int) -> None:
        """Record the memory that a trajectory used."""
        self._largest = max(self._largest, nbytes)

    async def _enter(self) -> None:
        if not self._waiting and self.playing < self.places:
            self.playing += 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():  # it had already been admitted
                self.playing -= 1
                self._admit()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _admit(self) -> None:
        while self._waiting and self.playing < self.places:
            turn = self._waiting.popleft()
            if not turn.cancelled():
                self.playing += 1
                turn.set_result(None)


class Gauges:
    """The maxima since the last read of `event_loop_lag_s` and of other recorded values."""

    def __init__(self) -> None:
        self._most: dict[str, float] = {}
        self._task: asyncio.Task[None] | None = None

    def note(self, name: str, value: float) -> None:
        """Record a value, of which the largest is kept."""
        self._most[name] = max(value, self._most.get(name, value))

    def watch_loop(self) -> None:
        """Start measuring the lag of the running event loop."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._watch())

    def read(self) -> dict[str, float]:
        """Return the maxima and reset them."""
        found = self._most
        self._most = {}
        return found

    async def _watch(self) -> None:
        while True:
            due = time.monotonic() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            self.note("event_loop_lag_s", time.monotonic() - due)


def step_gauges(
    workers: Iterable[Mapping[str, float]], directory: Mapping[str, float]
) -> dict[str, float]:
    """Return the metrics of a step: maximum lag and queue lengths, total bytes, and the cache's."""
    values: dict[str, list[float]] = defaultdict(list)
    for name, value in (item for worker in workers for item in worker.items()):
        values[name].append(value)
    found = {
        name: sum(each) if name.endswith("_bytes") else max(each) for name, each in values.items()
    }
    return {f"docagent/workers/{name}": value for name, value in {**found, **directory}.items()}


@dataclass(slots=True)
class WorkerResources:
    """The resources of one agent worker.

    `images` are the image settings (`None`: those of a standalone process), `admission` limits
    concurrent trajectories (`None`: no limit), and `encoder` is set when the first trajectory
    begins. With `awaits_servers` a trajectory whose server has died waits until it is abandoned.
    """

    images: ImageSettings | None = None
    admission: Admission | None = None
    gauges: Gauges = field(default_factory=Gauges)
    encoder: ImageEncoder | None = None
    awaits_servers: bool = False

    def look(self) -> None:
        """Record the present queue lengths and bytes."""
        if self.admission is not None:
            self.gauges.note("trajectories_playing", self.admission.playing)
            self.gauges.note("trajectories_waiting", self.admission.waiting)
        if self.encoder is not None:
            self.gauges.note("images_waiting", self.encoder.waiting)
            self.gauges.note("images_bytes", self.encoder.held_bytes)


def worker_resources(
    run: DictConfig, *, workers: int, on_node: int, capacity: int, image_cache: ImageCache | None
) -> WorkerResources:
    """Return the resources of one agent worker.

    The run has `workers` agent workers, `on_node` of them on the same node; `capacity` is the size
    of the run's image cache in bytes.
    """
    rollout = run.docagent.rollout
    memory = rollout.get("trajectory_memory_mb")
    budget = (
        memory << 20 if memory else int(FREE_SHARE * psutil.virtual_memory().available / on_node)
    )
    threads = rollout.get("image_threads") or max(2, cores() // on_node)
    return WorkerResources(
        ImageSettings(capacity // workers, threads, image_cache), Admission(budget)
    )


def image_bytes(run: DictConfig, store: float) -> int:
    """Return the size of a run's image cache in bytes.

    `store` is the size of Ray's object store on all nodes.
    """
    given = run.docagent.rollout.get("image_cache_mb")
    return given << 20 if given else max(CAPACITY, int(STORE_SHARE * store))


def trajectory_bytes(rows: list[DocAgentLoopOutput]) -> int:
    """Return a finished trajectory's memory: its tokens, and its images in the ledger and rows."""
    total = 0
    for row in rows:
        total += TOKEN_BYTES * (len(row.prompt_ids) + len(row.response_ids))
        images: tuple[EncodedImage, ...] = (row.multi_modal_data or {})[IMAGES].images
        total += 2 * sum(image.nbytes for image in images)
    return total
