"""Clock the methods that our trainer mode overrides; a run loads this module as a user's module.

The seconds of a step that are spent in our methods, without those in verl's methods that ours call,
are logged as `docagent/overhead_s`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import wraps
from types import FunctionType
from typing import Any

from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from docagent_rl.training.trainer.mixin import DocAgentTrainerMixin

METHODS = tuple(
    name
    for name, method in vars(PPOTrainer).items()
    if isinstance(method, FunctionType)
    and getattr(DocAgentTrainerMixin, name, None) not in (None, method)
)
"""All methods of verl's trainer that our mode overrides."""
_in_verl: list[float] = []
"""For each of our methods that is running, the seconds in verl's methods that it has called."""
_in_ours = [0.0]
"""The seconds of the step in our methods alone."""


def _clocked(method: Callable[..., Any], *, is_ours: bool) -> Callable[..., Any]:
    """Return a method that adds the seconds of each call to `_in_ours` or `_in_verl`."""

    @wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if is_ours:
            _in_verl.append(0.0)
        start = time.perf_counter()
        try:
            return method(self, *args, **kwargs)
        finally:
            seconds = time.perf_counter() - start
            if is_ours:
                _in_ours[0] += seconds - _in_verl.pop()
            elif _in_verl:
                _in_verl[-1] += seconds

    return timed


def _install() -> None:
    for name in METHODS:
        verl_method = getattr(PPOTrainer, name)
        our_method = getattr(DocAgentTrainerMixin, name)
        setattr(PPOTrainer, name, _clocked(verl_method, is_ours=False))
        setattr(DocAgentTrainerMixin, name, _clocked(our_method, is_ours=True))
    compute_metrics = DocAgentTrainerMixin._compute_metrics

    def reporting(
        self: Any, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        compute_metrics(self, batch, metrics, *args, **kwargs)
        metrics["docagent/overhead_s"] = _in_ours[0]
        _in_ours[0] = 0.0

    DocAgentTrainerMixin._compute_metrics = reporting


_install()
