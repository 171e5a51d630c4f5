"""Two runs on one machine send weights only to their own rollout servers.

Upstream: verl 0.9.1, `verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py`,
`BucketedWeightSender` and `BucketedWeightReceiver` (verl-project/verl#6233, closed by #6246). The
address of the transfer is a file in `/tmp` named after Ray's job id, and a run that starts its own
Ray always has the job id `01000000`. If two such runs use it at the same time, the second sender
removes the socket of the first: one run hangs, and a server can receive the other run's weights.

Here the address also contains an id of the run, which the preflight generates and Ray's runtime
environment passes to all of the run's processes.

No longer needed once verl's address differs between clusters.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from docagent_rl.training.patching import SERVING, TRAINING, Patch, replace
from docagent_rl.watch.processes import RUN_VARIABLE

if TYPE_CHECKING:
    from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import (
        BucketedWeightReceiver,
        BucketedWeightSender,
    )

SUFFIX = ".sock"


def own_address(handle: str) -> str:
    """Return the address for this run; unchanged if the run has no id or the address is not a
    file.
    """
    run = os.environ.get(RUN_VARIABLE)
    if not run or not handle.startswith("ipc://"):
        return handle
    return f"{handle.removesuffix(SUFFIX)}-{run}{SUFFIX}"


def _patch(kind: type[BucketedWeightSender | BucketedWeightReceiver]) -> None:
    init = cast("Callable[..., None]", kind.__init__)

    @functools.wraps(init)
    def initialise(self: Any, zmq_handle: str, *args: Any, **kwargs: Any) -> None:
        init(self, own_address(zmq_handle), *args, **kwargs)

    replace(kind, "__init__", initialise)


def _apply(module: ModuleType) -> None:
    _patch(module.BucketedWeightSender)
    _patch(module.BucketedWeightReceiver)


PATCH = Patch(
    name="weight_transfer_address",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py, "
    "verl-project/verl#6233",
    reason="two runs on one machine take each other's weights, or hang",
    target_module="verl.workers.rollout.vllm_rollout.bucketed_weight_transfer",
    apply=_apply,
    processes=TRAINING | SERVING,
)
