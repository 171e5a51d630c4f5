"""Makes this package's estimators callable by verl, which hands them one object instead of two tensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import Tensor
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, AdvantageEstimator, register_adv_est

from docagent_rl.advantages import Estimator, builtin, registered_estimators  # noqa: F401  builtin registers
from docagent_rl.advantages.inputs import Advantages
from docagent_rl.errors import UserError

Computation = Callable[[Tensor, Tensor], Advantages]
"""`(token rewards, mask) -> Advantages`, both (b, t): everything else is bound."""

_computation: ContextVar[Computation | None] = ContextVar("docagent_computation", default=None)


def load_modules(names: Sequence[str]) -> None:
    """Import modules of users (`docagent.modules`).

    Raises:
        UserError: one of them cannot be imported.
    """
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise UserError(f"docagent.modules: {name} cannot be imported: {error}") from error


def install_estimators() -> None:
    """Register with verl whatever is registered with us and not there yet.

    Raises:
        UserError: verl has an estimator of its own under this name.
    """
    for name in registered_estimators():
        known = ADV_ESTIMATOR_REGISTRY.get(name)
        if known is None:
            register_adv_est(name)(_bridge(name))
        elif not getattr(known, "docagent", False):
            raise UserError(f"estimator {name!r} is the name of one of verl's: register yours under another")


def known_estimators() -> list[str]:
    """Names that `algorithm.adv_estimator` takes, sorted."""
    install_estimators()
    # verl computes GAE outside its registry in some releases, and lists it in the enumeration
    return sorted(
        {str(getattr(name, "value", name)) for name in ADV_ESTIMATOR_REGISTRY}
        | {member.value for member in AdvantageEstimator}
    )


def our_estimator(name: str) -> Estimator | None:
    """The estimator of this name if it is one of ours; None for verl's."""
    return registered_estimators().get(str(name))


@contextmanager
def computing(computation: Computation) -> Iterator[None]:
    """Within this context, verl's call of one of our estimators runs the computation."""
    token = _computation.set(computation)
    try:
        yield
    finally:
        _computation.reset(token)


def _bridge(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """What verl calls. It is given token rewards and the mask, and knows neither sessions nor turns."""

    def bridge(token_level_rewards: Tensor, response_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
        computation = _computation.get()
        if computation is None:
            raise UserError(
                f"algorithm.adv_estimator={name} needs a trainer mode of this package: set "
                "trainer.v1.trainer_mode=docagent_sync (or docagent_colocate_async, docagent_separate_async)"
            )
        result = computation(token_level_rewards, response_mask)
        kind = token_level_rewards.dtype
        return result.advantages.to(kind), result.returns.to(kind)

    bridge.docagent = True
    return bridge


# by an import, so that it also happens when this module is what imports verl's registry first
install_estimators()
