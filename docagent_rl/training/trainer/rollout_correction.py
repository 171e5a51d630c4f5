"""Rollout server and trainer: whether their log-probs agree, and verl's rejection sampling.

verl computes advantages and then takes rejected tokens, or all tokens of a rejected row, out of
`response_mask` (`algorithm.rollout_correction.rollout_rs`). From there on that field says what is
trained. What was sampled stays known: estimators see every turn and every reward, as verl's own do,
and their result is cut to the tokens that are trained; records and metrics keep all sampled tokens;
the observation KL takes a rejected token for what it is, and leaves out a row of which all is
rejected.
"""

import math
from collections.abc import Mapping
from typing import Any

import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta

from docagent_rl.base.errors import InfrastructureError, UserError
from docagent_rl.training.tensors import ROLLOUT_MASK, partition, tensor

APART = "rollout_corr/kl"
"""verl's mean over sampled tokens of the server's log-probability less the trainer's, in nats.

It is there where `rollout.calculate_log_probs` is set and `algorithm.rollout_correction` neither
bypasses nor is null.
"""


def check_agreement(metrics: Mapping[str, Any], most: float | None, step: int) -> None:
    """End a run whose server samples by other weights than the trainer trains.

    Rounding, quantised rollouts and trajectories of some steps ago set the two apart by some
    hundredths of a nat; other weights, by several.

    Raises:
        InfrastructureError: they are further apart than `most` nats (`docagent.watch.most_apart`).
    """
    apart = metrics.get(APART)
    if most is None or apart is None or math.isnan(apart) or apart <= most:
        return
    raise InfrastructureError(
        f"step {step}: tokens are on average {apart:.2f} nats likelier to the rollout server that "
        "sampled "
        f"them than to the trainer, more than docagent.watch.most_apart={most:g}. The server has "
        "other "
        "weights (look at the trajectories: `docagent-rl view` on this run), or samples by "
        "settings that the "
        "trainer does not know (top_k, top_p, a logits processor). Where that is meant, set "
        "docagent.watch.most_apart=null"
    )


def may_reject(config: DictConfig) -> bool:
    """Return whether verl edits the mask of a batch; in bypass mode it rejects within the loss
    instead.
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
    """Refuse a step of which every token was rejected.

    Raises:
        UserError: verl's metrics have no number for an update without a token.
    """
    if not any(mask.any() for mask in _mask(batch).unbind()):
        raise UserError(
            f"algorithm.rollout_correction.rollout_rs rejects every token of step {step}: widen "
            "rollout_rs_threshold, or see rollout_corr/* for why server and trainer disagree"
        )


def _mask(batch: KVBatchMeta) -> Tensor:
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=partition(batch), select_fields=["response_mask"]
    )
    return tensor(data, "response_mask")
