"""Checkpoints that can be told to be whole: the manifest is written last, and then the tracker names them."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf, open_dict
from verl.trainer.ppo.checkpoint_callback import CheckpointCallback

from docagent_rl.checkpoints.inspection import ACTOR, CRITIC
from docagent_rl.checkpoints.manifest import CheckpointCheck, step_folder, write_manifest, write_tracker
from docagent_rl.checkpoints.retention import Retention
from docagent_rl.config import DocAgentConfig
from docagent_rl.training.trainer.background import Background
from docagent_rl.training.trainer.verl_trainer import VerlTrainer

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
"""verl saves the parts alone: it removes no older checkpoint and names none as the latest, which it leaves to
whoever finishes an asynchronous save. The workers have a configuration of their own."""


class SavingMixin(VerlTrainer):
    """Saves checkpoints; part of `DocAgentTrainerMixin`."""

    docagent: DocAgentConfig

    @cached_property
    def _files(self) -> Background:
        """Writes what a step leaves behind; whoever relies on its being there waits for it."""
        return Background()

    def _save_checkpoint(self) -> None:
        self._files.settle()
        check = self.docagent.checkpoint_check
        if check is CheckpointCheck.OFF or OmegaConf.select(self.config, _ASYNC_SAVE):
            super()._save_checkpoint()
            return
        folder = step_folder(Path(self.config.trainer.default_local_dir).absolute(), self.global_steps)
        self._retention.make_room(folder)
        callback, self.checkpoint_callback = self.checkpoint_callback, CheckpointCallback(self.config)
        try:
            with parts_only(self.config):
                super()._save_checkpoint()
        finally:
            self.checkpoint_callback = callback
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
        callback.on_save(
            trainer=self, global_step=self.global_steps, checkpoint_dir=str(folder), async_save=False
        )

    def _rate_checkpoint(self, values: Mapping[str, float]) -> None:
        """Let the checkpoint of this step, if there is one, stay as long as no other has a better validation.

        Args:
            values: of the validation; the score is the mean of verl's `val-core/` numbers.
        """
        core = [value for name, value in values.items() if name.startswith("val-core/")]
        if self.docagent.keep_best and core:
            root = Path(self.config.trainer.default_local_dir).absolute()
            self._retention.rate(step_folder(root, self.global_steps), sum(core) / len(core))

    @cached_property
    def _retention(self) -> Retention:
        trainer = self.config.trainer
        one = trainer.get("remove_previous_ckpt_in_save", False)
        keep = {ACTOR: 1 if one else trainer.get("max_actor_ckpt_to_keep")}
        if self.use_critic:
            keep[CRITIC] = 1 if one else trainer.get("max_critic_ckpt_to_keep")
        return Retention(keep)


@contextmanager
def parts_only(config: DictConfig) -> Generator[None]:
    """While the block lasts, the trainer's configuration makes verl save the parts of a checkpoint alone."""
    before = {key: _value(config, key) for key in _PARTS_ONLY}
    try:
        _VERL.addFilter(_is_not_about_async)
        _set(config, _PARTS_ONLY)
        yield
    finally:
        _set(config, before)
        _VERL.removeFilter(_is_not_about_async)


def _is_not_about_async(record: logging.LogRecord) -> bool:
    """Whether a line is not verl's on why it names no latest checkpoint."""
    return "async_save" not in str(record.msg)


_ABSENT = object()


def _value(config: DictConfig, key: str) -> Any:
    section, _, name = key.rpartition(".")
    node = OmegaConf.select(config, section)
    return node[name] if node is not None and name in node else _ABSENT


def _set(config: DictConfig, values: dict[str, Any]) -> None:
    with open_dict(config):
        for key, value in values.items():
            if value is _ABSENT:
                section, _, name = key.rpartition(".")
                OmegaConf.select(config, section).pop(name, None)
            else:
                OmegaConf.update(config, key, value)
