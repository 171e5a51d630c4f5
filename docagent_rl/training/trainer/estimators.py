"""Makes this package's estimators callable by verl, which calls with two tensors
(`docs/architecture.md`).
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, AdvantageEstimator, register_adv_est

from docagent_rl.advantages import Estimator, registered_estimators
from docagent_rl.advantages.inputs import Advantages
from docagent_rl.base.errors import UserError
from docagent_rl.base.user_code import import_module

Computation = Callable[[Tensor, Tensor], Advantages]
"""`(token rewards, mask) -> Advantages`, both (b, t): everything else is bound."""

_RAW_ALONE = frozenset(
    {"grpo", "grpo_vectorized", "gdpo", "rloo", "opo", "gpg", "reinforce_plus_plus_baseline"}
    | {"optimal_token_baseline", "tir_optimal_token_baseline"}
)
"""Estimators of verl that take the reward of a trajectory for its advantage where it is alone in
its group.
"""

_UNAVAILABLE = {
    "gdpo": "the parts of a reward beside the row",
    "optimal_token_baseline": "the sum of squared probabilities at each token",
    "remax": "a greedy trajectory beside each group",
    "tir_optimal_token_baseline": "the sum of squared probabilities at each token",
}
"""Estimators of verl, and what they read that its V1 trainers do not compute."""

_computation: ContextVar[Computation | None] = ContextVar("docagent_computation", default=None)
_bridges: set[Callable[..., tuple[Tensor, Tensor]]] = set()
"""Our estimators in verl's registry."""


def load_modules(names: Sequence[str]) -> None:
    """Import modules of users (`docagent.modules`).

    Raises:
        UserError: there is none of this name, or it raises.
    """
    for name in names:
        import_module(name, f"docagent.modules: {name}")


def install_estimators() -> None:
    """Register with verl whatever is registered with us and not there yet.

    Raises:
        UserError: verl has an estimator of its own under this name.
    """
    for name in registered_estimators():
        known = ADV_ESTIMATOR_REGISTRY.get(name)
        if known is None:
            register_adv_est(name)(_bridge(name))
        elif known not in _bridges:
            raise UserError(
                f"estimator {name!r} is the name of one of verl's: register yours under another"
            )


def known_estimators() -> list[str]:
    """Return the names that `algorithm.adv_estimator` takes, sorted."""
    install_estimators()
    # verl computes GAE outside its registry in some releases, and lists it in the enumeration
    return sorted(
        {str(getattr(name, "value", name)) for name in ADV_ESTIMATOR_REGISTRY}
        | {member.value for member in AdvantageEstimator}
    )


def our_estimator(name: str) -> Estimator | None:
    """Return the estimator of this name if it is one of ours; None for verl's."""
    return registered_estimators().get(str(name))


def alone_in_group(name: str) -> str | None:
    """Return a warning of an estimator of verl that is wrong where masking leaves one of a group,
    or None.
    """
    if name not in _RAW_ALONE and name != "grpo_passk":
        return None
    done = (
        "ends the run"
        if name == "grpo_passk"
        else "takes the trajectory's reward for its advantage"
    )
    return (
        f"algorithm.adv_estimator={name} is verl's: where masking leaves one trajectory of a "
        f"group, it {done}"
        "; trajectory_grpo gives it 0 (with docagent.advantage.options.loo=true in the place of "
        "RLOO)"
    )


def unavailable(name: str) -> str | None:
    """Return why an estimator of verl would end the run at its first update, or None."""
    missing = _UNAVAILABLE.get(name)
    return (
        None if missing is None else f"it reads {missing}, which verl's V1 trainers do not compute"
    )


def compares(name: str) -> bool:
    """Return whether an estimator of verl compares the trajectories of a group."""
    return name in _RAW_ALONE or name == "grpo_passk"


@contextmanager
def computing(computation: Computation) -> Generator[None]:
    """Within this context, run the computation when verl calls one of our estimators."""
    token = _computation.set(computation)
    try:
        yield
    finally:
        _computation.reset(token)


def _bridge(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return what verl calls, with token rewards and the mask; it knows neither trajectories nor
    turns.
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


# by an import, so that it also happens when this module is what imports verl's registry first
install_estimators()
