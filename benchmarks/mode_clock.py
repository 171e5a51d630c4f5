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
_inside: list[float] = []
_spent = [0.0]


def _clocked(method: Callable[..., Any], *, outer: bool) -> Callable[..., Any]:
    @wraps(method)
    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        if outer:
            _inside.append(0.0)
        start = time.perf_counter()
        try:
            return method(self, *args, **kwargs)
        finally:
            seconds = time.perf_counter() - start
            if outer:
                _spent[0] += seconds - _inside.pop()
            elif _inside:
                _inside[-1] += seconds

    return timed


def _install() -> None:
    for name in METHODS:
        setattr(PPOTrainer, name, _clocked(getattr(PPOTrainer, name), outer=False))
        setattr(
            DocAgentTrainerMixin, name, _clocked(getattr(DocAgentTrainerMixin, name), outer=True)
        )
    measured = DocAgentTrainerMixin._compute_metrics

    def reporting(
        self: Any, batch: Any, metrics: dict[str, Any], *args: Any, **kwargs: Any
    ) -> None:
        measured(self, batch, metrics, *args, **kwargs)
        metrics["docagent/overhead_s"] = _spent[0]
        _spent[0] = 0.0

    DocAgentTrainerMixin._compute_metrics = reporting


_install()
