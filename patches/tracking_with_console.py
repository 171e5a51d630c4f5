"""verl's trackers, and the tracker that writes the lines of a run's console.

Upstream: verl 0.9.1, `verl/utils/tracking.py`, `Tracking`. Its list of trackers is closed: an
assertion refuses any other name in `trainer.logger`. The trainers for reinforcement learning and
for fine-tuning both create a `Tracking`, and only log to it.

Here the tracker `docagent` is added to the configured ones in a process whose metrics a console
shows.

No longer needed once verl accepts registered trackers.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    original = module.Tracking.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
        """Open the configured trackers and this package's."""
        # imported here: it imports what draws tables, and most processes create no trackers
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
