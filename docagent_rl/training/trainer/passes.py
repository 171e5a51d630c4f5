"""The fields and images of rows that each of the trainer's passes needs.

verl sends all fields that rows have at the time: records, prompts as text, and columns that other
passes have written. Here fields that a pass is known not to read are omitted; fields of users and
of verl's other features are still sent.
"""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from enum import Enum
from typing import Any, ClassVar

from omegaconf import DictConfig, OmegaConf
from transfer_queue import KVBatchMeta
from verl.utils.transferqueue_utils import kv_batch_meta2batch_meta

from docagent_rl.training.agent_loop.output import TRAJECTORY_DIGEST, TRAJECTORY_LINE
from docagent_rl.training.tensors import TURN
from docagent_rl.training.trainer.base import VerlTrainer
from docagent_rl.training.trainer.trajectory_reader import trajectory_of
from docagent_rl.training.workers.critic import VALUE_MASK
from docagent_rl.training.workers.trajectory_loss import TRAJECTORY_TOKENS
from docagent_rl.training.workers.turn_loss import TURN_LENGTHS

_SKIPS = ("skip.rollout.enable", "skip.async_rollout.enable", "skip.rollout_tq.enable")


def may_name(config: DictConfig, mode: str) -> bool:
    """Return whether rows may refer to images that only exist during the run; `mode` is verl's
    mode.

    verl's asynchronous modes save the queue with a checkpoint, and its `skip` saves rollouts for
    other runs: such rows must contain their images.
    """
    return mode == "sync" and not any(OmegaConf.select(config, key) for key in _SKIPS)


class NamedImagesMixin(VerlTrainer):
    """A mixin in front of verl's V1 trainers for rows that refer to their images by name."""

    verl_mode: ClassVar[str]

    def fit(self, agent_loop_manager: Any) -> None:
        """Train as verl does, with named images."""
        name = getattr(agent_loop_manager, "name_images", None)  # another manager has none
        if name is not None and may_name(self.config, self.verl_mode):
            name()
        super().fit(agent_loop_manager)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Run a step as verl does, and release the images of its rows."""
        batch = super().step(metrics, timing_raw)
        self.release_images(batch.keys)
        return batch

    def release_images(self, keys: Iterable[str]) -> None:
        """Release the images of rows that are not needed any more."""
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
"""Fields for the driver and the agent workers."""
TWICE = frozenset({"input_ids", "loss_mask"})
"""Fields that workers make of `prompts`, `responses` and `response_mask`
(`patches/compact_rows.py`).
"""
REWARDS = frozenset({TURN, "rm_scores", "token_level_rewards"})
"""Fields from which advantages are computed."""
RAW = frozenset({"log_probs", "entropy"})
"""Fields of whole rows, as workers write them; the driver has extracted the responses' part."""
TARGETS = frozenset({"values", "returns", VALUE_MASK})
"""Fields for the critic."""
POLICY = frozenset(
    {
        "old_log_probs",
        "ref_log_prob",
        "advantages",
        "rollout_log_probs",
        "rollout_is_weights",
        TRAJECTORY_TOKENS,
        TURN_LENGTHS,
    }
)
"""Fields for the policy's loss."""


class Pass(Enum):
    """A pass of the trainer over its rows; the value contains the fields that it does not need."""

    INFER = SAMPLES | TWICE | REWARDS | RAW | TARGETS | POLICY
    """A pass without a loss: log-probs of the policy or the reference, or values."""
    UPDATE_POLICY = SAMPLES | TWICE | REWARDS | RAW | TARGETS
    UPDATE_CRITIC = SAMPLES | TWICE | REWARDS | RAW | POLICY


@contextmanager
def reading(batch: KVBatchMeta, which: Pass) -> Generator[None]:
    """Within this context, restrict the batch to the fields that a pass needs."""
    own = batch.fields
    there = kv_batch_meta2batch_meta(batch).field_names if own is None else own
    batch.fields = [name for name in there if name not in which.value]
    try:
        yield
    finally:
        batch.fields = own


class PassFieldsMixin(VerlTrainer):
    """A mixin in front of verl's V1 trainers whose passes only fetch what they need."""

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
