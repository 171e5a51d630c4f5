"""Which advantage estimators a run may name."""

from __future__ import annotations

from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, AdvantageEstimator


def known_estimators() -> list[str]:
    """Names that `algorithm.adv_estimator` takes, sorted."""
    # verl computes GAE outside its registry in some releases, and lists it in the enumeration
    return sorted(
        {str(name) for name in ADV_ESTIMATOR_REGISTRY} | {member.value for member in AdvantageEstimator}
    )
