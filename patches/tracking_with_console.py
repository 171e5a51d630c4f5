"""verl's trackers, with the one that makes the lines of a run's console.

Upstream: verl 0.9.1, `verl/utils/tracking.py`, `Tracking`. The list of its trackers is closed: a
name of another package in `trainer.logger` is refused by an assertion. Both trainers, of
reinforcement learning and of fine-tuning, make a `Tracking` of their own and log to it alone.

In a process whose numbers a console shows, the tracker `docagent` is added to those that were asked
for.

Unneeded once verl takes trackers that somebody registers.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    original = module.Tracking.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        """Open the trackers that were asked for, and ours."""
        # late: it loads what draws tables, and most processes make no trackers
        from docagent_rl.training.trainer.console_tracker import TRACKER, console_tracker

        original(self, *args, **kwargs)
        if (tracker := console_tracker()) is not None:
            self.logger[TRACKER] = tracker

    replace(module.Tracking, "__init__", __init__)


PATCH = Patch(
    name="tracking_with_console",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/tracking.py::Tracking.__init__",
    reason="a step is one line of several hundred numbers, and no other tracker can be registered",
    target_module="verl.utils.tracking",
    apply=_apply,
    processes=TRAINING,
)
