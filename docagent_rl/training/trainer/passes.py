"""The fields and images of rows that the trainer's passes read.

verl sends every field that the rows have at the time: records, prompts as text and columns that
other passes wrote. Left out is what is known not to be read; fields of users and of verl's other
features travel.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar

from omegaconf import DictConfig, OmegaConf
from transfer_queue import KVBatchMeta
from verl.utils.transferqueue_utils import kv_batch_meta2batch_meta

from docagent_rl.training.agent_loop.output import TRAJECTORY_DIGEST, TRAJECTORY_LINE
from docagent_rl.training.trainer.base import VerlTrainer
from docagent_rl.training.trainer.columns import TURN
from docagent_rl.training.trainer.trajectory_reader import trajectory_of
from docagent_rl.training.workers.critic import VALUE_MASK
from docagent_rl.training.workers.trajectory_loss import TRAJECTORY_TOKENS

_SKIPS = ("skip.rollout.enable", "skip.async_rollout.enable", "skip.rollout_tq.enable")


def may_name(config: DictConfig, mode: str) -> bool:
    """Return whether the rows of a run may name images that end with it; `mode` is verl's
    trainer's.

    verl's asynchronous modes save the queue with a checkpoint, and its `skip` saves rollouts for
    other runs: such rows hold their images.
    """
    return mode == "sync" and not any(OmegaConf.select(config, key) for key in _SKIPS)


class NamedImagesMixin(VerlTrainer):
    """Rows that name their images until no pass reads them; mixed in before one of verl's V1
    trainers.
    """

    verl_mode: ClassVar[str]

    def fit(self, agent_loop_manager: Any) -> None:
        """Train as verl does, with named images."""
        name = getattr(agent_loop_manager, "name_images", None)  # another manager has none
        if name is not None and may_name(self.config, self.verl_mode):
            name()
        super().fit(agent_loop_manager)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Do a step as verl does, and release the images of its rows."""
        batch = super().step(metrics, timing_raw)
        self.release_images(batch.keys)
        return batch

    def release_images(self, keys: Iterable[str]) -> None:
        """Release the images of rows that are not read any more."""
        release = getattr(getattr(self, "agent_loop_manager", None), "release_images", None)
        if release is not None:
            release(list(dict.fromkeys(map(trajectory_of, keys))))


SAMPLES = frozenset(
    {
        TRAJECTORY_DIGEST,
        TRAJECTORY_LINE,
        "sample",
        "raw_prompt",
        "extra_fields",
        "reward_model",
        "extra_info",
    }
)
"""Fields that the driver and the agent workers read."""
REWARDS = frozenset({TURN, "rm_scores", "token_level_rewards"})
"""Fields that advantages are computed from."""
RAW = frozenset({"log_probs", "entropy"})
"""Over whole rows, as workers write them; the driver has cut the responses' part out."""
TARGETS = frozenset({"values", "returns", VALUE_MASK})
"""Fields of the critic."""
POLICY = frozenset(
    {
        "old_log_probs",
        "ref_log_prob",
        "advantages",
        "rollout_log_probs",
        "rollout_is_weights",
        TRAJECTORY_TOKENS,
    }
)
"""Fields of the policy's loss."""


class Pass(Enum):
    """A pass of the trainer over its rows; the value is what it does not read."""

    INFER = SAMPLES | REWARDS | RAW | TARGETS | POLICY
    """Log-probs of policy or reference, or values: without a loss."""
    UPDATE_POLICY = SAMPLES | REWARDS | RAW | TARGETS
    UPDATE_CRITIC = SAMPLES | REWARDS | RAW | POLICY


@contextmanager
def reading(batch: KVBatchMeta, which: Pass) -> Generator[None]:
    """Within this context, give the batch the fields that a pass reads; it has its own again
    afterwards.
    """
    own = batch.fields
    there = kv_batch_meta2batch_meta(batch).field_names if own is None else own
    batch.fields = [name for name in there if name not in which.value]
    try:
        yield
    finally:
        batch.fields = own


class PassFieldsMixin(VerlTrainer):
    """Passes that fetch what they read; mixed in before one of verl's V1 trainers."""

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with reading(batch, Pass.INFER):
            return super()._compute_old_log_prob(batch, metrics)

    def _compute_ref_log_prob(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with reading(batch, Pass.INFER):
            return super()._compute_ref_log_prob(batch, metrics)

    def _compute_values(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with reading(batch, Pass.INFER):
            return super()._compute_values(batch, metrics)

    def _update_critic(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with reading(batch, Pass.UPDATE_CRITIC):
            return super()._update_critic(batch, metrics)

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        with reading(batch, Pass.UPDATE_POLICY):
            return super()._update_actor(batch, metrics)
