"""Rejection sampling of verl (`algorithm.rollout_correction.rollout_rs`): what was sampled, what is trained.

verl computes advantages and then takes rejected tokens, or all tokens of a rejected row, out of
`response_mask`. From there on that field says what is trained. What was sampled stays known: estimators see
every turn and every reward, as verl's own do, and their result is cut to the tokens that are trained;
records and metrics keep all sampled tokens; the observation KL takes a rejected token for what it is.
"""

from __future__ import annotations

import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from docagent_rl.base.errors import UserError
from docagent_rl.training.losses.batch import ROLLOUT_MASK
from docagent_rl.training.tensors import partition, tensor


def may_reject(config: DictConfig) -> bool:
    """Whether verl edits the mask of a batch; in bypass mode it rejects within the loss instead.

    Args:
        config: the composed configuration.
    """
    correction = config.algorithm.get("rollout_correction", None)
    if correction is None or correction.get("bypass_mode", False):
        return False
    return correction.get("rollout_rs", None) is not None


def keep_rollout_mask(batch: KVBatchMeta) -> None:
    """Store the mask under `ROLLOUT_MASK` before verl edits it; padding rows included."""
    fields = TensorDict({ROLLOUT_MASK: _mask(batch)}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=partition(batch), fields=fields)


def check_something_is_left(batch: KVBatchMeta, step: int) -> None:
    """Raise where every token of a step was rejected.

    Raises:
        UserError: verl's metrics have no number for an update without a token.
    """
    if not any(mask.any() for mask in _mask(batch).unbind()):
        raise UserError(
            f"algorithm.rollout_correction.rollout_rs rejects every token of step {step}: widen "
            "rollout_rs_threshold, or see rollout_corr/* for why server and trainer disagree"
        )


def _mask(batch: KVBatchMeta) -> Tensor:
    data = tq.kv_batch_get(keys=batch.keys, partition_id=partition(batch), select_fields=["response_mask"])
    return tensor(data, "response_mask")
