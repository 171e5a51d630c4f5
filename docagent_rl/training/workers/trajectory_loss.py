"""verl's worker of the policy with a loss that is averaged by trajectory, and the numbers it needs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from docagent_rl.training.losses.trajectory_mean import (
    TRAJECTORIES,
    TRAJECTORY_TOKENS,
    TrajectoryMeanLoss,
    row_tokens,
    trajectories_in,
)
from docagent_rl.training.tensors import partition
from docagent_rl.training.workers.extensions import Extension


class TrajectoryCountWorker(TrainingWorker):
    """Trains the policy, and counts the trajectories of each mini-batch."""

    def train_batch(self, data: TensorDict) -> TensorDict:
        """As verl's, for one mini-batch."""
        share = torch.tensor(trajectories_in(data), dtype=torch.float64, device=get_device_id())
        torch.distributed.all_reduce(share, group=self.engine.get_data_parallel_group())
        tu.assign_non_tensor(data, **{TRAJECTORIES: share.item()})
        return super().train_batch(data)


if TYPE_CHECKING:
    _Worker = ActorRolloutRefWorker
else:
    _Worker = object


class TrajectoryWorkerMixin(_Worker):
    """Mixed in before `ActorRolloutRefWorker`, or a subclass of it."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # ty: ignore[missing-attribute]  (verl adds the members)
    def init_model(self) -> None:
        """Build the models as verl does, then wrap the policy's loss."""
        super().init_model()
        if self.actor is not None:
            self.loss_fn = TrajectoryMeanLoss(self.loss_fn)
            self.actor.set_loss_fn(self.loss_fn)


TRAJECTORY_LOSS = Extension(TrajectoryWorkerMixin, TrajectoryCountWorker)
"""The policy's loss averaged by trajectory (`docagent.loss.aggregation=trajectory`)."""


def put_trajectory_tokens(batch: KVBatchMeta) -> KVBatchMeta:
    """Tell the policy's worker how many tokens of each row's trajectory count in the loss.

    Workers see rows and no trajectories, and not all rows of one. Tokens that a rejection took out of the
    mask by now do not count.
    """
    data = tq.kv_batch_get(keys=batch.keys, partition_id=partition(batch), select_fields=["response_mask"])
    trajectories = [key.rsplit("_", 1)[0] for key in batch.keys]
    whole: Counter[str] = Counter()
    for trajectory, tokens in zip(trajectories, row_tokens(data), strict=True):
        whole[trajectory] += tokens
    counts = [torch.tensor([whole[trajectory]]) for trajectory in trajectories]
    nested = torch.nested.as_nested_tensor(counts, layout=torch.jagged)
    fields = TensorDict({TRAJECTORY_TOKENS: nested}, batch_size=len(batch))
    return tq.kv_batch_put(keys=batch.keys, partition_id=partition(batch), fields=fields)
