"""Whether the rollout server samples by the weights that the trainer trains."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from docagent_rl.base.errors import InfrastructureError

APART = "rollout_corr/kl"
"""verl's mean over sampled tokens of the server's log-probability less the trainer's, in nats.

It is there where `rollout.calculate_log_probs` is set and `algorithm.rollout_correction` neither bypasses
nor is null.
"""


def check_agreement(metrics: Mapping[str, Any], most: float | None, step: int) -> None:
    """End a run whose trajectories say nothing about its policy.

    Rounding, quantised rollouts and trajectories of some steps ago set the two apart by some hundredths of a
    nat; other weights, by several.

    Args:
        metrics: of the step.
        most: nats that they may be apart (`docagent.watch.most_apart`); `None`: any number.
        step: for the message.

    Raises:
        InfrastructureError: they are further apart.
    """
    apart = metrics.get(APART)
    if most is None or apart is None or math.isnan(apart) or apart <= most:
        return
    raise InfrastructureError(
        f"step {step}: tokens are on average {apart:.2f} nats likelier to the rollout server that sampled "
        f"them than to the trainer, more than docagent.watch.most_apart={most:g}. The server has other "
        "weights (look at the trajectories: `docagent-rl view` on this run), or samples by settings that the "
        "trainer does not know (top_k, top_p, a logits processor). Where that is meant, set "
        "docagent.watch.most_apart=null"
    )
