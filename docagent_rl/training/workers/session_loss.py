"""verl's worker of the policy with a loss that is averaged by session, and the numbers it needs."""

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

from docagent_rl.training.losses.session_mean import (
    SESSION_TOKENS,
    SESSIONS,
    SessionMeanLoss,
    row_tokens,
    sessions_in,
)
from docagent_rl.training.tensors import partition
from docagent_rl.training.workers.extensions import Extension


class SessionCountWorker(TrainingWorker):
    """Trains the policy, and counts the sessions of each mini-batch."""

    def train_batch(self, data: TensorDict) -> TensorDict:
        """As verl's, for one mini-batch."""
        share = torch.tensor(sessions_in(data), dtype=torch.float64, device=get_device_id())
        torch.distributed.all_reduce(share, group=self.engine.get_data_parallel_group())
        tu.assign_non_tensor(data, **{SESSIONS: share.item()})
        return super().train_batch(data)


if TYPE_CHECKING:
    _Worker = ActorRolloutRefWorker
else:
    _Worker = object


class SessionWorkerMixin(_Worker):
    """Mixed in before `ActorRolloutRefWorker`, or a subclass of it."""

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)  # ty: ignore[missing-attribute]  (verl adds the members)
    def init_model(self) -> None:
        """Build the models as verl does, then wrap the policy's loss."""
        super().init_model()
        if self.actor is not None:
            self.loss_fn = SessionMeanLoss(self.loss_fn)
            self.actor.set_loss_fn(self.loss_fn)


SESSION_LOSS = Extension(SessionWorkerMixin, SessionCountWorker)
"""The policy's loss averaged by session (`docagent.loss.aggregation=session`)."""


def put_session_tokens(batch: KVBatchMeta) -> KVBatchMeta:
    """Tell the policy's worker how many tokens of each row's session count in the loss.

    Workers see rows and no sessions, and not all rows of one. Tokens that a rejection took out of the mask by
    now do not count.
    """
    data = tq.kv_batch_get(keys=batch.keys, partition_id=partition(batch), select_fields=["response_mask"])
    sessions = [key.rsplit("_", 1)[0] for key in batch.keys]
    whole: Counter[str] = Counter()
    for session, tokens in zip(sessions, row_tokens(data), strict=True):
        whole[session] += tokens
    counts = [torch.tensor([whole[session]]) for session in sessions]
    nested = torch.nested.as_nested_tensor(counts, layout=torch.jagged)
    fields = TensorDict({SESSION_TOKENS: nested}, batch_size=len(batch))
    return tq.kv_batch_put(keys=batch.keys, partition_id=partition(batch), fields=fields)
