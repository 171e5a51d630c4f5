"""Lets rows name their images where nothing reads rows after the run, and says when they are done with."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from omegaconf import DictConfig, OmegaConf
from transfer_queue import KVBatchMeta

from docagent_rl.training.trainer.trajectory_reader import trajectory_of
from docagent_rl.training.trainer.verl_trainer import VerlTrainer

_SKIPS = ("skip.rollout.enable", "skip.async_rollout.enable", "skip.rollout_tq.enable")


def may_name(config: DictConfig, mode: str) -> bool:
    """Whether the rows of a run may name images that end with it.

    verl's asynchronous modes save the queue with a checkpoint, and its `skip` saves rollouts for other runs:
    such rows hold their images.

    Args:
        config: the composed configuration.
        mode: of verl's trainer.
    """
    return mode == "sync" and not any(OmegaConf.select(config, key) for key in _SKIPS)


class NamedImagesMixin(VerlTrainer):
    """Mixed in before one of verl's V1 trainers."""

    verl_mode: ClassVar[str]

    def fit(self, agent_loop_manager: Any) -> None:
        """As verl's."""
        name = getattr(agent_loop_manager, "name_images", None)  # another manager has none
        if name is not None and may_name(self.config, self.verl_mode):
            name()
        super().fit(agent_loop_manager)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """As verl's; no pass reads the images of its rows any more when it ends."""
        batch = super().step(metrics, timing_raw)
        self.release_images(batch.keys)
        return batch

    def release_images(self, keys: Iterable[str]) -> None:
        """Rows that are not read any more.

        Args:
            keys: verl's, `{uid}_{trajectory}_{index}`.
        """
        release = getattr(getattr(self, "agent_loop_manager", None), "release_images", None)
        if release is not None:
            release(list(dict.fromkeys(map(trajectory_of, keys))))
