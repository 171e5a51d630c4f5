"""Check that the log-probs of rollout server and trainer agree, and support verl's rejection
sampling.

verl computes advantages and then removes rejected tokens, or all tokens of a rejected row, from
`response_mask` (`algorithm.rollout_correction.rollout_rs`). From then on this field marks what is
trained. The sampled tokens are kept separately: estimators see every turn and every reward, as
verl's own do, and their result is restricted to the trained tokens; records and metrics include all
sampled tokens; the observation KL does not treat a rejected token as an observation, and excludes
rows that are rejected as a whole.
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
"""verl's mean over sampled tokens of the server's minus the trainer's log-probability, in nats.

It exists if `rollout.calculate_log_probs` is set, and `algorithm.rollout_correction` is neither
null nor in bypass mode.
"""


def check_agreement(metrics: Mapping[str, Any], most: float | None, step: int) -> None:
    """Check that the rollout server samples with the weights that the trainer trains.

    Rounding, quantised rollouts and trajectories from a few steps ago cause differences of a few
    hundredths of a nat; different weights cause several nats.

    Raises:
        InfrastructureError: they differ by more than `most` nats (`docagent.watch.most_apart`).
    """
    apart = metrics.get(APART)
    if most is None or apart is None or math.isnan(apart) or apart <= most:
        return
    raise InfrastructureError(
        f"step {step}: the log-probability of sampled tokens is on average {apart:.2f} nats higher "
        "on the rollout server than in the trainer, more than "
        f"docagent.watch.most_apart={most:g}. Either the server has other weights (look at the "
        "trajectories with `docagent-rl view`), or it samples with settings that the trainer does "
        "not use (top_k, top_p, a logits processor). If this is intended, set "
        "docagent.watch.most_apart=null"
    )


def may_reject(config: DictConfig) -> bool:
    """Return whether verl removes rejected tokens from the mask of a batch.

    In bypass mode it rejects them within the loss instead.
    """
    correction = config.algorithm.get("rollout_correction", None)
    if correction is None or correction.get("bypass_mode", False):
        return False
    return correction.get("rollout_rs", None) is not None


def keep_rollout_mask(batch: KVBatchMeta) -> None:
    """Store the mask as `ROLLOUT_MASK`, also for padding rows, before verl changes it."""
    fields = TensorDict({ROLLOUT_MASK: _mask(batch)}, batch_size=len(batch))
    tq.kv_batch_put(keys=batch.keys, partition_id=partition(batch), fields=fields)


def check_something_is_left(batch: KVBatchMeta, step: int) -> None:
    """Check that a step has a token that was not rejected, which verl's metrics require.

    Raises:
        UserError: every token was rejected.
    """
    if not any(mask.any() for mask in _mask(batch).unbind()):
        raise UserError(
            f"algorithm.rollout_correction.rollout_rs rejects every token of step {step}: widen "
            "rollout_rs_threshold, or see the metrics rollout_corr/* for how server and trainer "
            "differ"
        )


def _mask(batch: KVBatchMeta) -> Tensor:
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=partition(batch), select_fields=["response_mask"]
    )
    return tensor(data, "response_mask")
