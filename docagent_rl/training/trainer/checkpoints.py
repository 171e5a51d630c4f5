"""Save checkpoints that can be verified, and resume runs from them.

The manifest is written last, and then the tracker. A run that resumes first completes the step of
the checkpoint: its validation, its metrics, and the entries that verl's loggers lack.
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
logger.setLevel(os.getenv("VERL_LOGGING_LEVEL", "INFO"))  # like verl's messages on checkpoints
_VERL = logging.getLogger("verl.trainer.ppo.v1.trainer_base")

_ASYNC_SAVE = "actor_rollout_ref.actor.checkpoint.async_save"
_PARTS_ONLY = {
    "trainer.max_actor_ckpt_to_keep": None,
    "trainer.max_critic_ckpt_to_keep": None,
    "trainer.remove_previous_ckpt_in_save": False,
    _ASYNC_SAVE: True,
}
"""Settings with which verl only saves the parts of a checkpoint. It removes no older checkpoint,
and does not write the tracker, which it leaves to the end of an asynchronous save. The workers have
their own configuration and still save synchronously.
"""


class CheckpointsMixin(TrainerPart):
    """Saves checkpoints and resumes from them; part of `DocAgentTrainerMixin`."""

    _begun = 0
    """The step from which this process resumes."""

    def _save_checkpoint(self) -> None:
        self._files.wait()
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
            "%s is complete: %d files, %.3f GB in total; the manifest took %.1f s",
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
        """Within this context, make verl only save the parts of a checkpoint, without callbacks."""
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
        """Keep this step's checkpoint, if there is one, as long as its validation score is best."""
        if self.docagent.keep_best:
            _rate(self._retention, step_folder(self._root, self.global_steps), values)

    @cached_property
    def _retention(self) -> Retention:
        trainer = self.config.trainer
        only_last = trainer.get("remove_previous_ckpt_in_save", False)
        keep = {ACTOR: 1 if only_last else trainer.get("max_actor_ckpt_to_keep")}
        if self.use_critic:
            keep[CRITIC] = 1 if only_last else trainer.get("max_critic_ckpt_to_keep")
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
        """Train as verl does, after moving aside the files of steps that are repeated."""
        if adopted := Seal(self.run_dir).adopt():
            logger.warning(
                "these files were not sealed before the run was killed; sealed them as found: %s",
                ", ".join(adopted),
            )
        self._begun = self.global_steps
        if self._begun > 0:
            continue_trackers(self.run_dir)
        if not self.config.trainer.get("val_only", False):
            moved = supersede_steps(self.run_dir, self.global_steps)
            if moved is not None:
                logger.warning(
                    "the run resumes from step %d; moved the files of later steps to %s",
                    self.global_steps,
                    moved,
                )
        try:
            super().fit(agent_loop_manager)
        finally:
            self._files.wait()

    def on_train_begin(self) -> None:
        """Complete the checkpoint's step before the first step, after verl's initial validation."""
        note_trackers(self.run_dir, self.logger)
        step = self.global_steps - 1  # verl has already advanced the counter
        if step > 0:
            self._complete(step)
        super().on_train_begin()

    def _complete(self, step: int) -> None:
        """Validate and log `step`, which a run that ended right after its checkpoint did not do.

        verl saves the checkpoint, validates and logs, in this order, and would skip the last two.
        """
        metrics = read_metrics(self.run_dir, step)
        if metrics is None or not trajectory_file(self.run_dir, step).is_file():
            logger.warning(
                "there are no files of step %d in %s: it was trained in another folder",
                step,
                self.run_dir,
            )
            metrics = metrics or {}
        every = self.config.trainer.test_freq
        validates = every > 0 and (step >= self.total_training_steps or step % every == 0)
        values = self._missing_validation(step) if validates else {}
        if INTERRUPTED in metrics:
            metrics = {**metrics, **values}
            write_metrics(self.run_dir, step, metrics)
            self.logger.log(data=metrics, step=step)
            logger.warning(
                "the run had ended before it logged step %d: logged it now, without metrics that "
                "are lost (for example, the time it took to save)",
                step,
            )
        if step >= self.total_training_steps:
            logger.warning(
                "all %d steps have been trained: nothing is left to do", self.total_training_steps
            )

    def _missing_validation(self, step: int) -> dict[str, float]:
        """Return the metrics of a step's validation, which is run now if it is missing."""
        found = read_metrics(self.run_dir, step, validation=True)
        if found is not None:
            return found
        logger.warning("running the missing validation of step %d", step)
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
    """Rate a checkpoint by the mean of its validation's `val-core/` metrics, if there are any."""
    core = [value for name, value in values.items() if name.startswith("val-core/")]
    if core:
        retention.rate(folder, sum(core) / len(core))


def _is_not_about_async(record: logging.LogRecord) -> bool:
    """Return False for verl's message that it does not write the tracker because of
    `async_save`.
    """
    return "async_save" not in str(record.msg)
