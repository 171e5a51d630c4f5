"""Use a single gloo process group if verl requests two backends for the same device.

Upstream: verl 0.9.1, `verl/utils/distributed.py`, `initialize_global_process_group` (SFT) and
`initialize_global_process_group_ray` (engine workers). Both build `"cpu:gloo,<device>:<backend>"`.
With the device `cpu` this is `"cpu:gloo,cpu:gloo"`, which torch refuses as a duplicate.

No longer needed once verl names a device only once in that string.
"""

from __future__ import annotations

import os
from datetime import timedelta
from types import ModuleType

import torch

from docagent_rl.training.hardware import is_cpu_platform
from docagent_rl.training.patching import TRAINING, Patch, replace


def initialize_global_process_group(timeout_second: int = 36000) -> tuple[int, int, int]:
    """Initialise gloo from torchrun's environment; return local rank, rank and world size."""
    torch.distributed.init_process_group(
        backend="gloo",
        timeout=timedelta(seconds=timeout_second),
        init_method=os.environ.get("DIST_INIT_METHOD"),
    )
    return int(os.environ["LOCAL_RANK"]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def _apply(module: ModuleType) -> None:
    original = module.initialize_global_process_group_ray

    def initialize_global_process_group_ray(
        timeout_second: int | None = None, backend: str | None = None
    ) -> None:
        """Initialise gloo unless the caller requests another backend."""
        original(timeout_second=timeout_second, backend=backend or "gloo")

    replace(module, "initialize_global_process_group", initialize_global_process_group)
    replace(module, "initialize_global_process_group_ray", initialize_global_process_group_ray)


PATCH = Patch(
    name="gloo_process_group",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/distributed.py::initialize_global_process_group(_ray)",
    reason="torch refuses the backend string cpu:gloo,cpu:gloo",
    target_module="verl.utils.distributed",
    apply=_apply,
    processes=TRAINING,
    needed=is_cpu_platform,
)
