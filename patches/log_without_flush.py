"""verl's separate trainer can log a message with an argument that loggers do not accept.

Upstream: verl 0.9.1, `verl/trainer/ppo/v1/trainer_separate_async.py`,
`PPOTrainerSeparateAsync._setup`. With `actor_rollout_ref.hybrid_engine=false`, which keeps rollout
servers off the trainer's GPUs, it calls `logger.info(..., flush=True)`, which raises a `TypeError`
after all models have been loaded.

No longer needed once verl removes `flush`.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from types import ModuleType
from typing import Any, cast

from docagent_rl.training.patching import TRAINING, Patch


class WithoutFlush(logging.LoggerAdapter):
    """A logger that accepts `flush`, as `print` does, and ignores it."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the message and the arguments that a logger accepts."""
        return msg, {name: value for name, value in kwargs.items() if name != "flush"}


def _apply(module: ModuleType) -> None:
    cast("Any", module).logger = WithoutFlush(module.logger)


PATCH = Patch(
    name="log_without_flush",
    package="verl",
    versions="==0.9.1",
    reference="verl/trainer/ppo/v1/trainer_separate_async.py::PPOTrainerSeparateAsync._setup",
    reason="separate_async with hybrid_engine=false fails with a TypeError when it logs a message",
    target_module="verl.trainer.ppo.v1.trainer_separate_async",
    apply=_apply,
    processes=TRAINING,
)
