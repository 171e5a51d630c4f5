"""End a run on request, between two steps or within one, with a checkpoint.

A step that is abandoned leaves no trace: the checkpoint is that of the previous step, with the
state of the data loader before the step's questions were drawn, so that a resumed run draws them
again.
"""

from __future__ import annotations

import logging
from copy import deepcopy
from functools import cached_property
from types import SimpleNamespace
from typing import Any, cast

import ray
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from docagent_rl.training.trainer.accounts import TRAIN
from docagent_rl.training.trainer.base import TrainerPart
from docagent_rl.watch.stopping import StopRequest

logger = logging.getLogger(__name__)

VALIDATION = "val"
"""verl's partition of validation trajectories."""


class RunStoppedError(RuntimeError):
    """Leaves verl's training loop in a run that was asked to stop."""


class StoppingMixin(TrainerPart):
    """Abandons a step and saves the last checkpoint; part of `DocAgentTrainerMixin`."""

    _trained: int | None = None
    """The last step that this process has trained."""
    _saved: int | None = None
    """The last step that this process has saved."""
    _position: dict[str, Any] | None = None
    """State of the data loader at the beginning of the current step; None between steps."""

    @cached_property
    def _stop_request(self) -> StopRequest:
        return StopRequest(self.docagent.watch.stop_s)

    @cached_property
    def _drawn(self) -> set[str]:
        """Prompts that the current step has submitted."""
        return set()

    def fit(self, agent_loop_manager: Any) -> None:
        """Train as verl does, until all steps are done or the run is asked to stop."""
        try:
            super().fit(agent_loop_manager)
        except RunStoppedError as stopped:
            logger.warning("stopping the run on request: %s", stopped)
            self._leave()

    def on_step_begin(self) -> None:
        """Do not begin a step in a run that has been asked to stop."""
        if self._stop_request.asked:
            raise RunStoppedError(f"step {self.global_steps} was not started")
        super().on_step_begin()

    def on_validate_begin(self) -> None:
        """Do not begin a validation in a run that has been asked to stop; the next start runs
        it.
        """
        if self._stop_request.asked:
            raise RunStoppedError(
                f"the validation of step {self.global_steps} is left to the next start"
            )
        super().on_validate_begin()

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Run a step as verl does, and remember where it began."""
        self._drawn.clear()
        self._position = deepcopy(self.train_dataloader.state_dict())
        batch = super().step(metrics, timing_raw)
        self._position = None
        self._trained = self.global_steps
        return batch

    def _submit_batch_to_rollout(self, batch: TensorDict) -> int:
        self._drawn.update(map(str, batch["uid"]))
        return super()._submit_batch_to_rollout(batch)

    def _save_checkpoint(self) -> None:
        super()._save_checkpoint()
        self._saved = self.global_steps

    def _give_up_in_time(self) -> None:
        """Abandon a rollout that takes too long after the run has been asked to stop."""
        if self._stop_request.overdue:
            self._give_up("the time for it is over")

    def _give_up_on_request(self, reason: str) -> None:
        """Abandon a rollout if the run has been asked to stop."""
        if self._stop_request.asked:
            self._give_up(reason)

    def _give_up(self, reason: str) -> None:
        """Abandon the rollout, if that is possible.

        It is not after a part of the step has been trained (`parameter_sync_step`), as the weights
        then belong to no step.
        """
        if self._position is None:
            raise RunStoppedError(
                f"nothing more is played after step {self.global_steps}: {reason}"
            )
        if self.local_trigger_step == 0:
            raise RunStoppedError(
                f"the rollout of step {self.global_steps} was abandoned: {reason}"
            )

    def _leave(self) -> None:
        """Save the last step, unless it has been saved, and notify the driver."""
        if self._trained is not None and self._trained != self._saved:
            self._end_rollout()
            self._forget_step()
            self.global_steps = self._trained
            self._save_checkpoint()
        self._shutdown_dump_executor()
        self._stop_request.confirm()

    def _end_rollout(self) -> None:
        """Kill the agent workers, and put servers to sleep, as they are when verl saves."""
        for worker in getattr(self.agent_loop_manager, "agent_loop_workers", ()):
            ray.kill(worker)  # they must not write to the queue any more
        if self.trainer_mode != "separate_async":
            self.checkpoint_manager.abort_replicas()
            self.checkpoint_manager.sleep_replicas()
            return
        separate = cast("Any", self)
        if separate.current_mode.value == "rollout":
            separate.switch_to_trainer()

    def _forget_step(self) -> None:
        """Undo the draws of the current step, and drop the rows of a running validation."""
        unsaved = self._keys_of_validation()
        if self._position is not None:
            position = self._position
            self.train_dataloader = cast("Any", SimpleNamespace(state_dict=lambda: position))
            queued = tq.kv_list(TRAIN) or {}
            drawn = [key for key in queued.get(TRAIN, {}) if key.split("_", 1)[0] in self._drawn]
            unsaved[TRAIN] = drawn
        for name, keys in unsaved.items():
            if keys:
                tq.kv_clear(keys=keys, partition_id=name)

    @staticmethod
    def _keys_of_validation() -> dict[str, list[str]]:
        queued = tq.kv_list(VALIDATION) or {}
        return {VALIDATION: list(queued.get(VALIDATION, {}))}
