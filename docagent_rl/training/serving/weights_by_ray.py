"""A checkpoint engine for verl that sends weights through Ray, without an accelerator's network.

In verl's trainer mode `separate_async`, weights are sent to separate rollout servers. verl's own
engines for that (NCCL, NIXL, Mooncake) need accelerators. This one is for `+profile=cpu`:
`actor_rollout_ref.rollout.checkpoint_engine.backend=docagent_ray`.
"""

import asyncio
from collections.abc import AsyncGenerator, Generator, Iterable
from typing import Any

import ray
from ray.actor import ActorHandle
from torch import Tensor
from verl.checkpoint_engine.base import CheckpointEngine, CheckpointEngineRegistry

BACKEND = "docagent_ray"
Bucket = list[tuple[str, Tensor]]


class Mailbox:
    """An actor that keeps each bucket until all receivers have taken it, at most one per
    receiver.
    """

    def __init__(self, receivers: int) -> None:
        self._boxes: list[asyncio.Queue[Bucket | None]] = [
            asyncio.Queue(1) for _ in range(receivers)
        ]

    async def put(self, bucket: Bucket | None) -> None:
        """Deliver a bucket to all receivers; `None` marks the end."""
        for box in self._boxes:
            await box.put(bucket)

    async def take(self, receiver: int) -> Bucket | None:
        """Wait for the next bucket of a receiver."""
        return await self._boxes[receiver].get()


@CheckpointEngineRegistry.register(BACKEND)
class RayCheckpointEngine(CheckpointEngine):
    """A sender in the first process of the policy, or a receiver next to a rollout server.

    The other processes of the policy iterate over the weights as well, because gathering them is a
    collective operation.
    """

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self._bucket_bytes = bucket_size
        self._sends = is_master
        self._mailbox: ActorHandle | None = None
        self._receiver = -1

    def prepare(self) -> dict[str, Any]:
        """Return no metadata; the mailbox is created when the number of receivers is known."""
        return {}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Create the mailbox of one update, and assign its boxes to the receivers."""
        mailbox = ray.remote(Mailbox).options(num_cpus=0).remote(rollout_world_size)
        senders = {
            "mailbox": [mailbox] * actor_wg_world_size,
            "receiver": [-1] * actor_wg_world_size,
        }
        receivers = {
            "mailbox": [mailbox] * rollout_world_size,
            "receiver": list(range(rollout_world_size)),
        }
        return senders, receivers

    # verl passes what `build_topology` has returned for this process
    def init_process_group(  # ty: ignore[incompatible-method-override]
        self, mailbox: ActorHandle, receiver: int
    ) -> None:
        """Store the mailbox of this update."""
        self._mailbox = mailbox
        self._receiver = receiver

    def finalize(self) -> None:
        """Release the mailbox, which ends with its last handle."""
        self._mailbox = None

    async def send_weights(
        self, weights: Generator[tuple[str, Tensor], None, None], global_steps: int | None = None
    ) -> None:
        """Send all weights bucket by bucket; a process that is not the sender only gathers them."""
        for bucket in buckets(weights, self._bucket_bytes):
            if self._sends:
                await self._actor.put.remote(bucket)
        if self._sends:
            await self._actor.put.remote(None)

    # verl's engines are asynchronous generators, contrary to the annotation of the base class
    async def receive_weights(  # ty: ignore[incompatible-method-override]
        self, global_steps: int | None = None
    ) -> AsyncGenerator[tuple[str, Tensor], None]:
        """Yield the weights as they arrive."""
        while (bucket := await self._actor.take.remote(self._receiver)) is not None:
            for name, weight in bucket:
                yield name, weight

    @property
    def _actor(self) -> Any:
        if self._mailbox is None:
            raise RuntimeError("weights are sent before init_process_group has set the mailbox")
        return self._mailbox


def buckets(weights: Iterable[tuple[str, Tensor]], most_bytes: int) -> Generator[Bucket]:
    """Yield weights in buckets of up to `most_bytes`; a larger weight gets its own bucket."""
    bucket: Bucket = []
    filled = 0
    for name, weight in weights:
        if bucket and filled + weight.nbytes > most_bytes:
            yield bucket
            bucket = []
            filled = 0
        bucket.append((name, weight.detach().cpu()))
        filled += weight.nbytes
    if bucket:
        yield bucket
