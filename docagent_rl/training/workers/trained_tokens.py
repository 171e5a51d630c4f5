"""Losses of verl's workers, divided by what is trained.

verl 0.9.1 divides means over rows by a constant, `ppo_mini_batch_size` times `rollout.n`
(`trainer_base._update_actor`, `_update_critic`), and means over tokens by the tokens that were
sampled (`FSDPEngine.forward_backward_batch` counts `loss_mask`, which a rejection does not edit).
Its sums are over `response_mask`. So rows of masked trajectories, the empty rows that verl fills
mini-batches with, and what rollout correction rejects would shrink the update of the others.
"""

import logging
from typing import Any

import torch
from tensordict import TensorDict
from verl.single_controller.base.decorator import make_nd_compute_dataproto_dispatch_fn, register
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.training.tensors import tensor

logger = logging.getLogger(__name__)

GLOBAL_BATCH_SIZE = "global_batch_size"
"""verl's field of a mini-batch: what it divides means over rows by."""


def trained_rows(data: TensorDict) -> int:
    """Count the rows of a batch that have a token to train."""
    return sum(bool(mask.any()) for mask in tensor(data, "response_mask").unbind())


class TrainedTokensWorker(TrainingWorker):
    """A worker whose losses are means over the tokens that it trains, and over the rows that have
    any.
    """

    @register(
        dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False
    )
    def train_batch(self, data: TensorDict) -> TensorDict:
        """Train on one mini-batch as verl does; leave the model alone where no worker has a token
        to train.

        Source of the fields: verl 0.9.1, `workers/utils/losses.py`, `core_algos.agg_loss`.
        """
        rows = torch.tensor(trained_rows(data), device=get_device_id())
        torch.distributed.all_reduce(rows, group=self.engine.get_data_parallel_group())
        if not rows:
            return self._without_update(data)
        data["loss_mask"] = data["response_mask"]
        tu.assign_non_tensor(data, **{GLOBAL_BATCH_SIZE: int(rows)})
        return super().train_batch(data)

    def _without_update(self, data: TensorDict) -> Any:
        """Return the answer to a mini-batch of which nothing is trained; None where verl's worker
        has none.

        A step of the optimizer with a gradient of zero would still move the weights, by momentum
        and weight decay. The learning rate goes on as ever: its schedule counts steps of the
        trainer.
        """
        logger.warning(
            "a mini-batch has no token to train, and is left out: no step of the optimizer"
        )
        metrics = {"mfu": 0.0}  # which verl's trainers read without asking
        if tu.get(data, key="update_lr_scheduler", default=False):
            metrics["lr"] = self.engine.lr_scheduler_step()
        if not self.engine.is_mp_src_rank_with_outputs():
            return None
        return tu.get_tensordict(tensor_dict={}, non_tensor_dict={"metrics": metrics}).cpu()
