"""A weight transfer leaves no shared memory behind, however its processes end.

Upstream: verl 0.9.1, `verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py`,
`BucketedWeightSender`. If devices cannot share memory, weights are sent through a segment
`verl_weights_<uuid>` in `/dev/shm`, which the sender unlinks at the end of the transfer. A run that
is killed before leaves one bucket there (2 GiB by verl's default) until the machine is rebooted.

Here the sender unlinks the segment as soon as the receiver has opened it: the mapping remains valid
until both processes are gone. A run that is killed before the receiver has opened it still leaves
the segment: its name contains the run's id, by which the run's next start finds it
(`watch/processes.py`).

No longer needed once `_init_buffer` does this.
"""

from __future__ import annotations

import functools
import os
import uuid
from types import ModuleType
from typing import Any

import torch

from docagent_rl.training.patching import SERVING, TRAINING, Patch, replace
from docagent_rl.watch.processes import RUN_VARIABLE, weights_of


def _apply(module: ModuleType) -> None:
    init_buffer = module.BucketedWeightSender._init_buffer

    @functools.wraps(init_buffer)
    def _init_buffer(self: Any) -> None:
        if not self.use_shm:
            init_buffer(self)
            return
        name = f"{weights_of(os.environ.get(RUN_VARIABLE, ''))}{uuid.uuid4().hex}"
        # assigned to `self.shm`, which is removed however the transfer ends
        self.shm = module.create_shared_memory(self.bucket_size, name)
        self.socket.send_pyobj({"name": name, "size": self.bucket_size})
        self.socket.recv()
        self.buffer = torch.frombuffer(self.shm.buf, dtype=torch.uint8)
        self.shm.unlink()
        self.shm.unlink = lambda: None  # it must not be unlinked again at the end of the transfer

    replace(module.BucketedWeightSender, "_init_buffer", _init_buffer)


PATCH = Patch(
    name="weight_transfer_memory",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py, BucketedWeightSender",
    reason="a run killed during a weight update leaves a bucket of shared memory behind",
    target_module="verl.workers.rollout.vllm_rollout.bucketed_weight_transfer",
    apply=_apply,
    processes=TRAINING | SERVING,
)
