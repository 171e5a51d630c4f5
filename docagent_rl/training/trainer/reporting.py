"""Reports of the trainer to the console of its run: stages of the start, and warnings."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from docagent_rl.training.trainer.base import TrainerPart
from docagent_rl.training.trainer.console_tracker import report_sender

STAGES = {
    "worker group kwargs": "trainer's workers",
    "reward loop manager initialized": "rollout servers",
    "checkpoint engine manager initialized": "checkpoint",
}
"""Beginnings of verl's lines on its own start, with the stage that begins there.

`PPOTrainer._setup` is one long method without a seam between them. Where verl's lines are switched
off (VERL_LOGGING_LEVEL), the stages are one.
"""
VERL_LOG = "verl.trainer.ppo.v1.trainer_base"
OUR_LOG = "docagent_rl"


def report_stage(name: str) -> None:
    """Report that a stage of the start begins."""
    report_sender().send({"kind": "stage", "name": name})


class _Stages(logging.Handler):
    """A listener to verl's own lines."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        for beginning, stage in STAGES.items():
            if text.startswith(beginning):
                report_stage(stage)


class _Warnings(logging.Handler):
    """A listener to our own warnings, which no console of a run may lose."""

    def emit(self, record: logging.LogRecord) -> None:
        report_sender().send({"kind": "warning", "text": record.getMessage()})


class ReportingMixin(TrainerPart):
    """The reports to the console; part of `DocAgentTrainerMixin`."""

    def _setup(self) -> None:
        if report_sender().listened_to:
            logging.getLogger(OUR_LOG).addHandler(_Warnings(logging.WARNING))
        with _listening(VERL_LOG, _Stages(logging.INFO)):
            super()._setup()

    def fit(self, agent_loop_manager: Any) -> None:
        """Train as verl does; the console learns where the run begins."""
        report_sender().send(
            {"kind": "ready", "step": self.global_steps, "total": self.total_training_steps}
        )
        super().fit(agent_loop_manager)

    def on_validate_begin(self) -> None:
        """Report that a validation goes on."""
        self._report(f"validation at step {self.global_steps}")
        super().on_validate_begin()

    def on_step_begin(self) -> None:
        """Report that a step goes on."""
        self._report(f"step {self.global_steps}")
        super().on_step_begin()

    def _report(self, name: str) -> None:
        report_sender().send({"kind": "look", "name": name})


@contextmanager
def _listening(name: str, handler: logging.Handler) -> Generator[None]:
    logger = logging.getLogger(name)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
