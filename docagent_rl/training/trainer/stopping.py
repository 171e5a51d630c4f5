"""The end of a run that was asked for, between two steps or within one, with a checkpoint.

A step that is given up is forgotten: the checkpoint is that of the step before, with the data
loader where it was before the step's questions were drawn, so that a resumed run draws them again.
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
from docagent_rl.watch.stopping import StopWish

logger = logging.getLogger(__name__)

_VALIDATION = "val"
"""verl's partition of trajectories of a validation."""


class RunStoppedError(RuntimeError):
    """The way out of verl's loop for a run that was asked to end."""


class StoppingMixin(TrainerPart):
    """The giving up of a step and the last checkpoint; part of `DocAgentTrainerMixin`."""

    _trained: int | None = None
    """The last step that this process has trained."""
    _saved: int | None = None
    """The last step that this process has saved."""
    _position: dict[str, Any] | None = None
    """State of the data loader at the beginning of the step that goes on; None between steps."""

    @cached_property
    def _wish(self) -> StopWish:
        return StopWish(self.docagent.watch.stop_s)

    @cached_property
    def _drawn(self) -> set[str]:
        """Prompts that the step has handed out."""
        return set()

    def fit(self, agent_loop_manager: Any) -> None:
        """Train as verl does, until all steps are done or the run is asked to end."""
        try:
            super().fit(agent_loop_manager)
        except RunStoppedError as stopped:
            logger.warning("the run ends as it was asked to: %s", stopped)
            self._leave()

    def on_step_begin(self) -> None:
        """Begin no step in a run that is asked to end."""
        if self._wish.asked:
            raise RunStoppedError(f"step {self.global_steps} is not begun")
        super().on_step_begin()

    def on_validate_begin(self) -> None:
        """Begin no validation either: the next start makes up for it."""
        if self._wish.asked:
            raise RunStoppedError(
                f"the validation of step {self.global_steps} is left to the next start"
            )
        super().on_validate_begin()

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Do a step as verl does, and remember where it began."""
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
        """End a rollout that takes longer than a run that is asked to end allows.

        Not once a part of the step is trained (`parameter_sync_step`): the weights are of no step
        then.
        """
        if self._wish.overdue and (self._position is None or self.local_trigger_step == 0):
            raise RunStoppedError(f"the rollout of step {self.global_steps} is given up")

    def _leave(self) -> None:
        """Save the last step, unless it is saved already, and tell the driver."""
        if self._trained is not None and self._trained != self._saved:
            self._end_rollout()
            self._forget_step()
            self.global_steps = self._trained
            self._save_checkpoint()
        self._shutdown_dump_executor()
        self._wish.obey()

    def _end_rollout(self) -> None:
        """End what plays, and free the memory of the servers, as they are when verl saves."""
        for worker in getattr(self.agent_loop_manager, "agent_loop_workers", ()):
            ray.kill(worker)  # nothing of theirs may reach the queue any more
        if self.trainer_mode != "separate_async":
            self.checkpoint_manager.abort_replicas()
            self.checkpoint_manager.sleep_replicas()
            return
        separate = cast("Any", self)
        if separate.current_mode.value == "rollout":
            separate.switch_to_trainer()

    def _forget_step(self) -> None:
        """Take back what the step that goes on has drawn, and a validation that goes on."""
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
        queued = tq.kv_list(_VALIDATION) or {}
        return {_VALIDATION: list(queued.get(_VALIDATION, {}))}


def give_up_in_time(buffer: Any, trainer: StoppingMixin) -> None:
    """Let a replay buffer of verl ask, whenever it looks for what was played, whether to go on.

    `buffer` is changed in place.
    """
    look = buffer._sync_metadata_from_transfer_queue

    def looked() -> None:
        trainer._give_up_in_time()
        look()

    buffer._sync_metadata_from_transfer_queue = looked
