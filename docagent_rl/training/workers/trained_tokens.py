"""Normalise the losses of verl's workers by the rows and tokens that are trained.

verl 0.9.1 divides means over rows by a constant, `ppo_mini_batch_size` times `rollout.n`
(`trainer_base._update_actor`, `_update_critic`), and means over tokens by the number of sampled
tokens (`FSDPEngine.forward_backward_batch` counts `loss_mask`, which a rejection does not change).
Its sums are over `response_mask`. Rows of masked trajectories, the empty rows with which verl pads
mini-batches, and tokens rejected by rollout correction would therefore shrink the update of the
others.
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
"""verl's field of a mini-batch with the divisor of means over rows."""


def trained_rows(data: TensorDict) -> int:
    """Count the rows of a batch that have at least one token to train."""
    return sum(bool(mask.any()) for mask in tensor(data, "response_mask").unbind())


class TrainedTokensWorker(TrainingWorker):
    """A worker whose losses are means over trained tokens, or over rows that have such tokens."""

    @register(
        dispatch_mode=make_nd_compute_dataproto_dispatch_fn(mesh_name="train"), blocking=False
    )
    def train_batch(self, data: TensorDict) -> TensorDict:
        """Train on one mini-batch as verl does; skip it if no worker has a token to train.

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
        """Return the result for a mini-batch without tokens to train, as verl's worker would.

        An optimizer step with a zero gradient would still change the weights through momentum and
        weight decay. The learning rate schedule advances as usual, as it counts steps of the
        trainer. The result is None on ranks on which verl's worker returns none.
        """
        logger.warning("skipping a mini-batch that has no token to train: no optimizer step")
        metrics = {"mfu": 0.0}  # verl's trainers require it
        if tu.get(data, key="update_lr_scheduler", default=False):
            metrics["lr"] = self.engine.lr_scheduler_step()
        if not self.engine.is_mp_src_rank_with_outputs():
            return None
        return tu.get_tensordict(tensor_dict={}, non_tensor_dict={"metrics": metrics}).cpu()
