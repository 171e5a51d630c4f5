"""Makes the step whole that a run goes on from: its validation, its numbers, and what verl's loggers lack."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docagent_rl.training.trainer.archive import (
    INTERRUPTED,
    read_metrics,
    set_aside,
    trajectory_file,
    write_metrics,
)
from docagent_rl.training.trainer.background import Background
from docagent_rl.training.trainer.verl_trainer import VerlTrainer

logger = logging.getLogger(__name__)


class ResumingMixin(VerlTrainer):
    """Goes on from checkpoints; part of `DocAgentTrainerMixin`."""

    if TYPE_CHECKING:

        @property
        def run_dir(self) -> Path:
            """Where the run's trajectories go."""
            ...

        @property
        def _files(self) -> Background: ...

    def fit(self, agent_loop_manager: Any) -> None:
        """As verl's; files of steps that are done again are set aside first."""
        if not self.config.trainer.get("val_only", False):
            moved = set_aside(self.run_dir, self.global_steps)
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
        """Before the first step, when a validation that verl does at every start is done."""
        step = self.global_steps - 1  # verl counts on before it calls this
        if step > 0:
            self._complete(step)
        super().on_train_begin()

    def _complete(self, step: int) -> None:
        """Make up for what a run that ended right after the checkpoint of `step` did not do.

        verl saves the checkpoint, validates, reports, in this order, and would do neither of the last two.
        """
        metrics = read_metrics(self.run_dir, step)
        if metrics is None or not trajectory_file(self.run_dir, step).is_file():
            logger.warning("step %d has no archive in %s: it was trained elsewhere", step, self.run_dir)
            metrics = metrics or {}
        values = self._made_up_validation(step) if self._validates(step) else {}
        if INTERRUPTED in metrics:
            metrics = {**metrics, **values}
            write_metrics(self.run_dir, step, metrics)
            self.logger.log(data=metrics, step=step)
            logger.warning(
                "the run had ended before step %d was reported: done now, without what was known in between "
                "(the time it took to save, for example)",
                step,
            )
        if step >= self.total_training_steps:
            logger.warning("all %d steps are trained: there is nothing left to do", self.total_training_steps)

    def _validates(self, step: int) -> bool:
        every = self.config.trainer.test_freq
        return every > 0 and (step >= self.total_training_steps or step % every == 0)

    def _made_up_validation(self, step: int) -> dict[str, float]:
        """The numbers of a step's validation, which is done now if it was not."""
        found = read_metrics(self.run_dir, step, validation=True)
        if found is not None:
            return found
        logger.warning("the validation of step %d is made up for", step)
        now, self.global_steps = self.global_steps, step
        try:
            self.on_validate_begin()
            values = self._validate()
            self.on_validate_end()
        finally:
            self.global_steps = now
        self.logger.log(data=values, step=step)
        return values
