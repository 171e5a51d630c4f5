"""GMPO's loss is the mean over the trained rows of a mini-batch.

Upstream: verl 0.9.1, `verl/trainer/ppo/core_algos.py`, `compute_policy_loss_geo_mean`. It computes
the mean over the rows of a micro-batch, and the engine sums the micro-batches: with k of them the
gradient is k times too large. Rows without a token to train (masked, empty, rejected) are counted,
and so shrink the update of the others.

Here only rows with a token to train are passed to verl's function, and their mean is weighted by
their share of the mini-batch, as `agg_loss` does for all other losses.

No longer needed once the function aggregates rows with `global_batch_info`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch import Tensor

from docagent_rl.training.patching import TRAINING, Patch, replace

NAME = "compute_policy_loss_geo_mean"


def _apply(module: ModuleType) -> None:
    original = getattr(module, NAME)

    def compute(
        old_log_prob: Tensor,
        log_prob: Tensor,
        advantages: Tensor,
        response_mask: Tensor,
        loss_agg_mode: str = "token-mean",
        config: Any = None,
        rollout_is_weights: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the loss of a micro-batch and its metrics; all tensors are (rows, tokens)."""
        trained = response_mask.bool().any(dim=1)
        # a mean over no rows would be NaN; if no row is trained, the loss below is multiplied by 0
        rows = trained if trained.any() else ~trained
        loss, metrics = original(
            old_log_prob=old_log_prob[rows],
            log_prob=log_prob[rows],
            advantages=advantages[rows],
            response_mask=response_mask[rows],
            loss_agg_mode=loss_agg_mode,
            config=config,
            rollout_is_weights=None if rollout_is_weights is None else rollout_is_weights[rows],
        )
        numbers = config.global_batch_info
        whole = numbers.get("global_batch_size") or max(int(trained.sum()), 1)
        return loss * trained.sum() / whole * numbers.get("dp_size", 1), metrics

    replace(module, NAME, compute)
    module.POLICY_LOSS_REGISTRY["geo_mean"] = compute


PATCH = Patch(
    name="geo_mean_of_rows",
    package="verl",
    versions="==0.9.1",
    reference="verl/trainer/ppo/core_algos.py::compute_policy_loss_geo_mean",
    reason="loss_mode=geo_mean counts rows that are not trained, and grows with the number of "
    "micro-batches",
    target_module="verl.trainer.ppo.core_algos",
    apply=_apply,
    processes=TRAINING,
)
