"""A checkpoint engine of verl that sends weights through Ray, without an accelerator's network.

verl's trainer mode `separate_async` has rollout servers of their own, to which weights have to
travel, and verl's own engines for that (NCCL, NIXL, Mooncake) need accelerators. This one is for
`+profile=cpu`: `actor_rollout_ref.rollout.checkpoint_engine.backend=docagent_ray`.
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
    """An actor that keeps each bucket until all receivers have taken it; one waits for each at
    most.
    """

    def __init__(self, receivers: int) -> None:
        self._boxes: list[asyncio.Queue[Bucket | None]] = [
            asyncio.Queue(1) for _ in range(receivers)
        ]

    async def put(self, bucket: Bucket | None) -> None:
        """Give all receivers a bucket; `None` says that it was the last."""
        for box in self._boxes:
            await box.put(bucket)

    async def take(self, receiver: int) -> Bucket | None:
        """Wait for the next bucket of a receiver."""
        return await self._boxes[receiver].get()


@CheckpointEngineRegistry.register(BACKEND)
class RayCheckpointEngine(CheckpointEngine):
    """A sender, which is the first process of the policy, or a receiver beside a rollout server.

    The other processes of the policy go through the weights as well, since they gather them
    together.
    """

    def __init__(self, bucket_size: int, is_master: bool = False) -> None:
        self._bucket_bytes = bucket_size
        self._sends = is_master
        self._mailbox: ActorHandle | None = None
        self._receiver = -1

    def prepare(self) -> dict[str, Any]:
        """Return nothing: the mailbox is made once the number of receivers is known."""
        return {}

    @classmethod
    def build_topology(
        cls, actor_wg_world_size: int, rollout_world_size: int, metadata: list[dict]
    ) -> tuple[dict[str, list[Any]], dict[str, list[Any]]]:
        """Make the mailbox of one update, and say who takes what out of it."""
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

    # verl passes on what `build_topology` has made for this process
    def init_process_group(  # ty: ignore[incompatible-method-override]
        self, mailbox: ActorHandle, receiver: int
    ) -> None:
        """Take the mailbox of this update."""
        self._mailbox = mailbox
        self._receiver = receiver

    def finalize(self) -> None:
        """Let go of the mailbox, which ends with its last handle."""
        self._mailbox = None

    async def send_weights(
        self, weights: Generator[tuple[str, Tensor], None, None], global_steps: int | None = None
    ) -> None:
        """Send all weights, bucket by bucket; a process that is no sender gathers them alone."""
        for bucket in buckets(weights, self._bucket_bytes):
            if self._sends:
                await self._actor.put.remote(bucket)
        if self._sends:
            await self._actor.put.remote(None)

    # verl's engines are asynchronous generators, which its base does not say
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
            raise RuntimeError("weights are sent before init_process_group has named the mailbox")
        return self._mailbox


def buckets(weights: Iterable[tuple[str, Tensor]], most_bytes: int) -> Generator[Bucket]:
    """Yield weights in buckets of up to `most_bytes`; a larger weight has a bucket of its own."""
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
