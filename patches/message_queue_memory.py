"""vLLM's message queues leave no shared memory behind, however their processes end.

Upstream: vLLM 0.24.0, `vllm/distributed/device_communicators/shm_broadcast.py`, `ShmRingBuffer`.
The writer's finaliser unlinks the queue's shared memory. A verl run ends its engines with signals,
as Ray does with actors, together with Python's resource tracker: each run leaves two segments of
160 and 240 MiB in `/dev/shm`, of which the written part occupies memory until the machine is
rebooted.

Here the writer unlinks the memory as soon as all readers have opened it: the mapping remains valid
until the last process is gone, and is then freed by the system.

No longer needed once `wait_until_ready` or the owner of the queue does this.
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
            buffer.is_creator = False  # so that the finaliser does not unlink it again
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
