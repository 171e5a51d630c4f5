"""FSDP2 offloads to host memory without pinning if there is no accelerator.

Upstream: verl 0.9.1, `verl/workers/engine/fsdp/transformer_impl.py`,
`FSDPEngine._build_fsdp_module`. It offloads the parameters of a reference model (and of any engine
with `offload_policy`) through `CPUOffloadPolicy(pin_memory=True)`; pinning fails without an
accelerator.

No longer needed once verl only pins memory on platforms with an accelerator, or torch ignores the
request on others.
"""

from __future__ import annotations

from types import ModuleType

from torch.distributed.fsdp import CPUOffloadPolicy

from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    def unpinned_offload_policy(pin_memory: bool = True) -> CPUOffloadPolicy:
        """Return the policy without pinned memory, whatever is requested."""
        return CPUOffloadPolicy(pin_memory=False)

    replace(module, "CPUOffloadPolicy", unpinned_offload_policy)


PATCH = Patch(
    name="fsdp2_unpinned_offload",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/engine/fsdp/transformer_impl.py::FSDPEngine._build_fsdp_module",
    reason="memory cannot be pinned without an accelerator",
    target_module="verl.workers.engine.fsdp.transformer_impl",
    apply=_apply,
    processes=TRAINING,
    needed=is_cpu_platform,
)
