"""vLLM's message queues leave no shared memory behind, whatever ends their processes.

Upstream: vLLM 0.24.0, `vllm/distributed/device_communicators/shm_broadcast.py`, `ShmRingBuffer`.
The name of the queue's memory is removed by the writer's finaliser. A run of verl ends its engines
by signals, as Ray does with actors, and takes Python's resource tracker along: each run leaves two
segments of 160 and 240 MiB in `/dev/shm`, as much of them in memory as was written, until the
machine starts anew.

Here the writer removes the name once all readers have opened it: what is mapped stays until the
last of them is gone, and then goes by itself.

Unneeded once `wait_until_ready` or the owner of the queue does so.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.patches.vllm_cpu_version import vllm_distribution
from docagent_rl.training.patching import Patch, ProcessKind, replace


def _apply(module: ModuleType) -> None:
    ready = module.MessageQueue.wait_until_ready

    def wait_until_ready(self: Any) -> None:
        ready(self)
        buffer = self.buffer
        if self._is_writer and buffer is not None and buffer.is_creator:
            buffer.is_creator = False  # the finaliser has nothing to remove any more
            buffer.shared_memory.unlink()

    replace(module.MessageQueue, "wait_until_ready", wait_until_ready)


PATCH = Patch(
    name="message_queue_memory",
    package=vllm_distribution(),
    versions="==0.24.0",
    reference="vllm/distributed/device_communicators/shm_broadcast.py, ShmRingBuffer.__del__",
    reason="every run that ends its engines leaves shared memory behind",
    target_module="vllm.distributed.device_communicators.shm_broadcast",
    apply=_apply,
    processes=frozenset({ProcessKind.RAY, ProcessKind.ENGINE, ProcessKind.VLLM}),
)
