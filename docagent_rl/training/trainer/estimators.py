"""Make this package's estimators callable by verl, which only passes two tensors
(`docs/architecture.md`).
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, AdvantageEstimator, register_adv_est

from docagent_rl.advantages import Estimator, registered_estimators
from docagent_rl.advantages.inputs import Advantages
from docagent_rl.base.errors import UserError

Computation = Callable[[Tensor, Tensor], Advantages]
"""`(token rewards, mask) -> Advantages`, both (b, t); everything else is bound in a closure."""

_RAW_IF_ALONE = frozenset(
    {"grpo", "grpo_vectorized", "gdpo", "rloo", "opo", "gpg", "reinforce_plus_plus_baseline"}
    | {"optimal_token_baseline", "tir_optimal_token_baseline"}
)
"""verl's estimators that use a trajectory's reward as its advantage if it is alone in its group."""

_UNAVAILABLE = {
    "gdpo": "the parts of each row's reward",
    "optimal_token_baseline": "the sum of squared probabilities at each token",
    "remax": "a greedy trajectory for each group",
    "tir_optimal_token_baseline": "the sum of squared probabilities at each token",
}
"""verl's estimators that need inputs which its V1 trainers do not compute, with these inputs."""

_computation: ContextVar[Computation | None] = ContextVar("docagent_computation", default=None)
_bridges: set[Callable[..., tuple[Tensor, Tensor]]] = set()
"""This package's estimators in verl's registry."""


def install_estimators() -> None:
    """Register all estimators of this package's registry with verl that are not yet.

    Raises:
        UserError: verl has its own estimator with the same name.
    """
    for name in registered_estimators():
        known = ADV_ESTIMATOR_REGISTRY.get(name)
        if known is None:
            register_adv_est(name)(_bridge(name))
        elif known not in _bridges:
            raise UserError(
                f"verl has its own estimator {name!r}: register yours under another name"
            )


def known_estimators() -> list[str]:
    """Return the sorted names that `algorithm.adv_estimator` accepts."""
    install_estimators()
    # in some releases verl's GAE is not in its registry, but only in the enumeration
    return sorted(
        {str(getattr(name, "value", name)) for name in ADV_ESTIMATOR_REGISTRY}
        | {member.value for member in AdvantageEstimator}
    )


def our_estimator(name: str) -> Estimator | None:
    """Return the estimator with this name in this package's registry; None for verl's."""
    return registered_estimators().get(str(name))


def alone_in_group(name: str) -> str | None:
    """Return a warning if verl's estimator is wrong for a group in which masking leaves one."""
    if name not in _RAW_IF_ALONE and name != "grpo_passk":
        return None
    effect = "uses the trajectory's reward as its advantage"
    if name == "grpo_passk":
        effect = "ends the run"
    return (
        f"algorithm.adv_estimator={name} is verl's: if masking leaves one trajectory in a group, "
        f"it {effect}; trajectory_grpo uses 0 (set docagent.advantage.options.loo=true to replace "
        "RLOO)"
    )


def unavailable(name: str) -> str | None:
    """Return why verl's estimator would end the run in its first update, or None."""
    missing = _UNAVAILABLE.get(name)
    if missing is None:
        return None
    return f"it needs {missing}, which verl's V1 trainers do not compute"


def compares(name: str) -> bool:
    """Return whether verl's estimator compares the trajectories of a group."""
    return name in _RAW_IF_ALONE or name == "grpo_passk"


@contextmanager
def computing(computation: Computation) -> Generator[None]:
    """Within this context, run the computation when verl calls one of this package's estimators."""
    token = _computation.set(computation)
    try:
        yield
    finally:
        _computation.reset(token)


def _bridge(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return the function that verl calls with token rewards and the mask.

    verl passes neither trajectories nor turns, so it runs the computation set by `computing`.
    """

    def bridge(
        token_level_rewards: Tensor, response_mask: Tensor, **_: Any
    ) -> tuple[Tensor, Tensor]:
        computation = _computation.get()
        if computation is None:
            raise UserError(
                f"algorithm.adv_estimator={name} needs a trainer mode of this package: set "
                "trainer.v1.trainer_mode=docagent_sync (or docagent_colocate_async, "
                "docagent_separate_async)"
            )
        result = computation(token_level_rewards, response_mask)
        kind = token_level_rewards.dtype
        return result.advantages.to(kind), result.returns.to(kind)

    _bridges.add(bridge)
    return bridge


# Registration on import also works if this module is the first to import verl's registry.
install_estimators()
