"""A weight transfer leaves no shared memory behind, whatever ends its processes.

Upstream: verl 0.9.1, `verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py`,
`BucketedWeightSender`. Where devices share no memory, weights travel through a segment
`verl_weights_<uuid>` in `/dev/shm`, whose name the sender removes at the end of the transfer. A run
killed before that leaves a bucket of it there (2 GiB by verl's default) until the machine starts
anew.

Here the sender removes the name once the receiver has opened it: what is mapped stays until both
are gone. A run killed before the receiver did leaves it all the same: the name holds the run's id,
by which the run's next start finds it (`watch/processes.py`).

Unneeded once `_init_buffer` does so.
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
        self.shm = module.create_shared_memory(
            self.bucket_size, name
        )  # removed at any end of the transfer
        self.socket.send_pyobj({"name": name, "size": self.bucket_size})
        self.socket.recv()
        self.buffer = torch.frombuffer(self.shm.buf, dtype=torch.uint8)
        self.shm.unlink()
        self.shm.unlink = lambda: None  # the name is gone when the transfer ends

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
