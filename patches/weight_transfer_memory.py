"""A weight transfer leaves no shared memory behind, whatever ends its processes.

Upstream: verl 0.9.1, `verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py`, `BucketedWeightSender`.
Where devices share no memory, weights travel through a segment `verl_weights_<uuid>` in `/dev/shm`, whose
name the sender removes at the end of the transfer. A run killed before that leaves a bucket of it there
(2 GiB by verl's default) until the machine starts anew.

Here the sender removes the name once the receiver has opened it: what is mapped stays until both are gone.

Unneeded once `_init_buffer` does so.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from docagent_rl.training.patching import SERVING, TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    init_buffer = module.BucketedWeightSender._init_buffer

    @functools.wraps(init_buffer)
    def _init_buffer(self: Any) -> None:
        init_buffer(self)
        if self.shm is not None:
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
