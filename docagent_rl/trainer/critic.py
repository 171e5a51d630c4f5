"""verl's worker of the critic, trained on the tokens that have a target."""

from __future__ import annotations

from typing import Any

import ray
from tensordict import TensorDict
from verl.single_controller.base.decorator import make_nd_compute_dataproto_dispatch_fn, register
from verl.trainer.ppo.utils import Role
from verl.workers.engine_workers import TrainingWorker

VALUE_MASK = "value_mask"
"""Field of a batch: 1 on sampled tokens whose `returns` is a target, in the shape of `response_mask`."""


def install_critic(role_worker_mapping: dict[Role, Any]) -> None:
    """Replace the critic's worker; without a critic nothing happens.

    Args:
        role_worker_mapping: verl's, from roles to Ray actor classes; changed in place.
    """
    if Role.Critic in role_worker_mapping:
        role_worker_mapping[Role.Critic] = ray.remote(CriticWorker)


class CriticWorker(TrainingWorker):
    """Leaves tokens without a target out of the loss, and out of the number of tokens it is divided by."""

    @register(dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False)
    def train_batch(self, data: TensorDict) -> TensorDict:
        """As verl's, for one mini-batch."""
        if VALUE_MASK in data.keys():  # noqa: SIM118  (a TensorDict iterates over its rows)
            data["response_mask"] = data["loss_mask"] = data[VALUE_MASK]
        return super().train_batch(data)
