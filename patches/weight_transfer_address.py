"""Two runs on one machine hand each its own weights to its own rollout server.

Upstream: verl 0.9.1, `verl/workers/rollout/vllm_rollout/bucketed_weight_transfer.py`,
`BucketedWeightSender` and `BucketedWeightReceiver` (verl-project/verl#6233, closed by #6246). The
address of the transfer is a file in `/tmp` named after Ray's job id, and a run that starts its own
Ray always has the job id `01000000`. Where two such runs meet, the second sender removes the socket
of the first: one run hangs, and a server can take the other run's weights.

Here the address also holds an id of the run, which the preflight check draws and Ray's runtime
environment hands to all of its processes.

Unneeded once verl's address differs between clusters.
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
    """The address of this run; unchanged where the run has no id or the address is no file."""
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
