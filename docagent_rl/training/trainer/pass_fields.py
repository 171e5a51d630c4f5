"""Which fields of a batch travel to the workers in each pass.

verl sends every field that the rows have at the time: records, prompts as text and columns that other passes
wrote. Left out is what is known not to be read; fields of users and of verl's other features travel.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from enum import Enum
from typing import Any

from transfer_queue import KVBatchMeta
from verl.utils.transferqueue_utils import kv_batch_meta2batch_meta

from docagent_rl.training.agent_loop.output import TRAJECTORY_DIGEST, TRAJECTORY_LINE
from docagent_rl.training.losses.trajectory_mean import TRAJECTORY_TOKENS
from docagent_rl.training.trainer.columns import TURN
from docagent_rl.training.trainer.verl_trainer import VerlTrainer
from docagent_rl.training.workers.critic import VALUE_MASK

SAMPLES = frozenset(
    {TRAJECTORY_DIGEST, TRAJECTORY_LINE, "sample", "raw_prompt", "extra_fields", "reward_model", "extra_info"}
)
"""Of trajectories and questions, which the driver and the agent workers read."""
REWARDS = frozenset({TURN, "rm_scores", "token_level_rewards"})
"""What advantages are made of."""
RAW = frozenset({"log_probs", "entropy"})
"""Over whole rows, as workers write them; the driver has cut the responses' part out."""
TARGETS = frozenset({"values", "returns", VALUE_MASK})
"""Of the critic."""
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
"""Of the policy's loss."""


class Pass(Enum):
    """A pass of the trainer over its rows; the value is what it does not read."""

    INFER = SAMPLES | REWARDS | RAW | TARGETS | POLICY
    """Log-probs of policy or reference, or values: without a loss."""
    UPDATE_POLICY = SAMPLES | REWARDS | RAW | TARGETS
    UPDATE_CRITIC = SAMPLES | REWARDS | RAW | POLICY


@contextmanager
def reading(batch: KVBatchMeta, which: Pass) -> Generator[None]:
    """Within this context the batch has the fields that a pass reads.

    Args:
        batch: changed in place; it has its own fields again afterwards.
        which: the pass.
    """
    own = batch.fields
    there = kv_batch_meta2batch_meta(batch).field_names if own is None else own
    batch.fields = [name for name in there if name not in which.value]
    try:
        yield
    finally:
        batch.fields = own


class PassFieldsMixin(VerlTrainer):
    """Mixed in before one of verl's V1 trainers: each pass fetches what it reads."""

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
