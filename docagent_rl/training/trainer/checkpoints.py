"""Checkpoints that can be told to be whole, and runs that go on from them.

The manifest is written last, and then the tracker names the checkpoint. A run that goes on makes
the step whole that it goes on from: its validation, its numbers, and what verl's loggers lack.
"""

import logging
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf, open_dict
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback

from docagent_rl.base.seals import Seal
from docagent_rl.checkpoints.inspection import ACTOR, CRITIC
from docagent_rl.checkpoints.manifest import (
    CheckpointCheck,
    sealing,
    step_folder,
    step_of,
    write_manifest,
    write_tracker,
)
from docagent_rl.checkpoints.retention import Retention
from docagent_rl.training.trainer.archive import (
    INTERRUPTED,
    read_metrics,
    supersede_steps,
    trajectory_file,
    write_metrics,
)
from docagent_rl.training.trainer.base import TrainerPart
from docagent_rl.training.trainer.trackers import continue_trackers, note_trackers

logger = logging.getLogger(__name__)
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # as verl's lines on checkpoints
_VERL = logging.getLogger("verl.trainer.ppo.v1.trainer_base")

_ASYNC_SAVE = "actor_rollout_ref.actor.checkpoint.async_save"
_PARTS_ONLY = {
    "trainer.max_actor_ckpt_to_keep": None,
    "trainer.max_critic_ckpt_to_keep": None,
    "trainer.remove_previous_ckpt_in_save": False,
    _ASYNC_SAVE: True,
}
"""verl saves the parts alone: it removes no older checkpoint and names none as the latest, which it
leaves to whoever finishes an asynchronous save. The workers have a configuration of their own.
"""


class CheckpointsMixin(TrainerPart):
    """The saving of checkpoints, and the going on from them; part of `DocAgentTrainerMixin`."""

    _begun = 0
    """The step from which this process goes on."""

    def _save_checkpoint(self) -> None:
        self._files.settle()
        check = self.docagent.checkpoint_check
        if OmegaConf.select(self.config, _ASYNC_SAVE):
            super()._save_checkpoint()
            return
        folder = step_folder(self._root, self.global_steps)
        if check is CheckpointCheck.OFF:
            with sealing(self.run_dir, folder):
                super()._save_checkpoint()
            return
        with sealing(self.run_dir, folder):
            self._retention.make_room(folder)
            with self._parts_only():
                super()._save_checkpoint()
            began = time.perf_counter()
            manifest = write_manifest(folder, check)
            write_tracker(folder.parent, self.global_steps)
            self._retention.add(folder)
        logger.info(
            "%s is whole: %d files of %.3f GB; the manifest took %.1f s",
            folder,
            len(manifest.files),
            manifest.size / 1e9,
            time.perf_counter() - began,
        )
        self.checkpoint_callback.on_save(
            trainer=self,
            global_step=self.global_steps,
            checkpoint_dir=str(folder),
            async_save=False,
        )

    @contextmanager
    def _parts_only(self) -> Generator[None]:
        """Within this context, make verl save the parts of a checkpoint alone, and tell nobody."""
        kept = self.config, self.checkpoint_callback
        self.config = deepcopy(self.config)
        with open_dict(self.config):
            for key, value in _PARTS_ONLY.items():
                OmegaConf.update(self.config, key, value)
        self.checkpoint_callback = CheckpointCallback(self.config)
        _VERL.addFilter(_is_not_about_async)
        try:
            yield
        finally:
            _VERL.removeFilter(_is_not_about_async)
            self.config, self.checkpoint_callback = kept

    def _rate_checkpoint(self, values: Mapping[str, float]) -> None:
        """Keep the checkpoint of this step, if there is one, while no other has a better
        validation.
        """
        if self.docagent.keep_best:
            _rate(self._retention, step_folder(self._root, self.global_steps), values)

    @cached_property
    def _retention(self) -> Retention:
        trainer = self.config.trainer
        one = trainer.get("remove_previous_ckpt_in_save", False)
        keep = {ACTOR: 1 if one else trainer.get("max_actor_ckpt_to_keep")}
        if self.use_critic:
            keep[CRITIC] = 1 if one else trainer.get("max_critic_ckpt_to_keep")
        retention = Retention(keep)
        for folder in retention.adopt(self._root, self._begun):
            values = read_metrics(self.run_dir, step_of(folder) or 0, validation=True)
            if self.docagent.keep_best and values is not None:
                _rate(retention, folder, values)
        return retention

    @property
    def _root(self) -> Path:
        return Path(self.config.trainer.default_local_dir).absolute()

    def fit(self, agent_loop_manager: Any) -> None:
        """Train as verl does; files of steps that are done again are set aside first."""
        if adopted := Seal(self.run_dir).adopt():
            logger.warning(
                "killed before they were sealed, and sealed as they are: %s", ", ".join(adopted)
            )
        self._begun = self.global_steps
        if self._begun > 0:
            continue_trackers(self.run_dir)
        if not self.config.trainer.get("val_only", False):
            moved = supersede_steps(self.run_dir, self.global_steps)
            if moved is not None:
                logger.warning(
                    "the run goes on from step %d: what was left of later ones is in %s",
                    self.global_steps,
                    moved,
                )
        try:
            super().fit(agent_loop_manager)
        finally:
            self._files.settle()

    def on_train_begin(self) -> None:
        """Complete the last step before the first one, after verl's validation at the start."""
        note_trackers(self.run_dir, self.logger)
        step = self.global_steps - 1  # verl counts on before it calls this
        if step > 0:
            self._complete(step)
        super().on_train_begin()

    def _complete(self, step: int) -> None:
        """Make up for what a run that ended right after the checkpoint of `step` did not do.

        verl saves the checkpoint, validates, reports, in this order, and would do neither of the
        last two.
        """
        metrics = read_metrics(self.run_dir, step)
        if metrics is None or not trajectory_file(self.run_dir, step).is_file():
            logger.warning(
                "step %d has no archive in %s: it was trained elsewhere", step, self.run_dir
            )
            metrics = metrics or {}
        every = self.config.trainer.test_freq
        validates = every > 0 and (step >= self.total_training_steps or step % every == 0)
        values = self._made_up_validation(step) if validates else {}
        if INTERRUPTED in metrics:
            metrics = {**metrics, **values}
            write_metrics(self.run_dir, step, metrics)
            self.logger.log(data=metrics, step=step)
            logger.warning(
                "the run had ended before step %d was reported: done now, without what was known "
                "in between "
                "(the time it took to save, for example)",
                step,
            )
        if step >= self.total_training_steps:
            logger.warning(
                "all %d steps are trained: there is nothing left to do", self.total_training_steps
            )

    def _made_up_validation(self, step: int) -> dict[str, float]:
        """Return the numbers of a step's validation, which is done now if it was not."""
        found = read_metrics(self.run_dir, step, validation=True)
        if found is not None:
            return found
        logger.warning("the validation of step %d is made up for", step)
        now = self.global_steps
        self.global_steps = step
        try:
            self.on_validate_begin()
            values = self._validate()
            self.on_validate_end()
        finally:
            self.global_steps = now
        self.logger.log(data=values, step=step)
        return values


def _rate(retention: Retention, folder: Path, values: Mapping[str, float]) -> None:
    """Rate a checkpoint by the mean of its validation's `val-core/` numbers, if there are any."""
    core = [value for name, value in values.items() if name.startswith("val-core/")]
    if core:
        retention.rate(folder, sum(core) / len(core))


def _is_not_about_async(record: logging.LogRecord) -> bool:
    """Return whether a line is not verl's on why it names no latest checkpoint."""
    return "async_save" not in str(record.msg)
