"""A line of the log of verl's separate trainer, without an argument that loggers do not have.

Upstream: verl 0.9.1, `verl/trainer/ppo/v1/trainer_separate_async.py`,
`PPOTrainerSeparateAsync._setup`. With `actor_rollout_ref.hybrid_engine=false`, which keeps rollout
servers off the trainer's GPUs, it calls `logger.info(..., flush=True)`, a `TypeError` when all
models are loaded.

Unneeded once verl leaves `flush` out.
"""

from __future__ import annotations

import logging
from collections.abc import MutableMapping
from types import ModuleType
from typing import Any, cast

from docagent_rl.training.patching import TRAINING, Patch


class WithoutFlush(logging.LoggerAdapter):
    """A logger that takes `flush`, as `print` does, and drops it."""

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        """Return the message and what a logger takes."""
        return msg, {name: value for name, value in kwargs.items() if name != "flush"}


def _apply(module: ModuleType) -> None:
    cast("Any", module).logger = WithoutFlush(module.logger)


PATCH = Patch(
    name="log_without_flush",
    package="verl",
    versions="==0.9.1",
    reference="verl/trainer/ppo/v1/trainer_separate_async.py::PPOTrainerSeparateAsync._setup",
    reason="separate_async with hybrid_engine=false ends with a TypeError in a line of its log",
    target_module="verl.trainer.ppo.v1.trainer_separate_async",
    apply=_apply,
    processes=TRAINING,
)
