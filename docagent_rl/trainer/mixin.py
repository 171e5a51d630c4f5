"""What the trainer modes of this package add to verl's."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
import transfer_queue as tq
from omegaconf import DictConfig, OmegaConf
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.workers.utils.padding import response_to_nested

from docagent_rl.advantages import Advantages, Discounts, Estimator, Need
from docagent_rl.config import DocAgentConfig
from docagent_rl.rollout.output import TRAJECTORY
from docagent_rl.rollout.trajectory import Trajectory
from docagent_rl.trainer.archive import attach_trainer_log_probs, write_metrics, write_trajectories
from docagent_rl.trainer.critic import VALUE_MASK, install_critic
from docagent_rl.trainer.embedding import SessionEmbedder
from docagent_rl.trainer.estimators import computing, install_estimators, load_modules, our_estimator
from docagent_rl.trainer.inputs import RowKeys, advantage_inputs
from docagent_rl.trainer.records import add_columns, fetch_sessions
from docagent_rl.trainer.summary import PREFIX, mask_reasons, summarise
from docagent_rl.trainer.texts import session_text
from docagent_rl.trainer.turn_report import turn_report
from docagent_rl.trainer.watch import watch_while_waiting
from docagent_rl.trainer.workers import install_workers

logger = logging.getLogger(__name__)


class DocAgentTrainerMixin:
    """Masks failed sessions out of the group statistics, hands estimators of this package the turns of all
    sessions, writes trajectories and reports their numbers.

    Mix in before one of verl's V1 trainers and set `verl_mode` to the name of that trainer: verl compares
    the configured name in several branches (replay buffer, data loader, checkpoint).
    """

    verl_mode: ClassVar[str]

    def __init__(self, config: DictConfig) -> None:
        config.trainer.v1.trainer_mode = self.verl_mode
        self.docagent = DocAgentConfig.parse(OmegaConf.to_container(config.docagent, resolve=True))
        load_modules(self.docagent.modules)
        install_estimators()
        self._estimator = our_estimator(config.algorithm.adv_estimator)
        self._embedder = None
        if self._estimator is not None and Need.EMBEDDINGS in self._estimator.needs:
            # loads its model while the workers start
            self._embedder = SessionEmbedder(self.docagent.advantage.embedder)
        super().__init__(config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        install_workers(self.role_worker_mapping, self.docagent.kl)
        if self._estimator is not None:
            install_critic(self.role_worker_mapping)

    def _build_replay_buffer(self) -> Any:
        buffer = super()._build_replay_buffer()
        watch_while_waiting(buffer, lambda: self.agent_loop_manager.agent_loop_workers)
        return buffer

    @property
    def run_dir(self) -> Path:
        """Where the run's trajectories go."""
        return self.docagent.run_dir

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"]
        )
        kept = [k for k, mask in zip(batch.keys, data["response_mask"].unbind(), strict=True) if mask.any()]
        if len(kept) == len(batch.keys):
            return self._estimate(batch, metrics)
        if not kept:
            reasons = mask_reasons([t for _, t in fetch_sessions(batch)])
            raise RuntimeError(f"every session of step {self.global_steps} is masked: {reasons}")
        computed = self._estimate(batch.select_keys(kept), metrics)
        self._put_zeros(batch.select_keys([k for k in batch.keys if k not in set(kept)]), computed.fields)
        return KVBatchMeta(
            keys=batch.keys,
            tags=batch.tags,
            partition_id=batch.partition_id,
            fields=computed.fields,
            extra_info=batch.extra_info,
        )

    def _estimate(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Let verl compute; where it calls an estimator of ours, that one sees sessions and turns."""
        if self._estimator is None:
            return super()._compute_advantage(batch, metrics)

        targets = None

        def compute(token_rewards: torch.Tensor, mask: torch.Tensor) -> Advantages:
            nonlocal targets
            result = self._advantages(self._estimator, batch, token_rewards, mask, metrics)
            metrics.update(result.metrics)
            if self.use_critic and result.value_mask is not None:
                targets = result.value_mask & mask.bool()
            return result

        with computing(compute):
            computed = super()._compute_advantage(batch, metrics)
        return computed if targets is None else self._put_targets(computed, targets)

    def _put_targets(self, batch: KVBatchMeta, targets: torch.Tensor) -> KVBatchMeta:
        """Tell the critic which tokens have a target, (b, t)."""
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"]
        )
        mask = data["response_mask"]
        nested = response_to_nested(targets.to(mask.dtype), mask)
        fields = TensorDict({VALUE_MASK: nested}, batch_size=len(batch))
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _advantages(
        self,
        estimator: Estimator,
        batch: KVBatchMeta,
        token_rewards: torch.Tensor,
        mask: torch.Tensor,
        metrics: dict[str, Any],
    ) -> Advantages:
        settings = self.docagent.advantage
        fields = ["turn_index", "values"] if self.use_critic else ["turn_index"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        rows = fetch_sessions(batch)
        if len(rows) != len(batch.keys):
            raise RuntimeError(
                f"algorithm.adv_estimator={estimator.name} needs sessions of the agent loop docagent; "
                f"{len(batch.keys) - len(rows)} rows of this batch come from another"
            )
        records = [trajectory for _, trajectory in rows]
        texts = [session_text(records[n], settings.text) for n in RowKeys.parse(batch.keys).first]
        algorithm = self.config.algorithm
        inputs = advantage_inputs(
            keys=batch.keys,
            trajectories=records,
            token_rewards=token_rewards,
            mask=mask,
            turn_index=data["turn_index"].to_padded_tensor(padding=-1),
            values=data["values"].to_padded_tensor(padding=0.0) if self.use_critic else None,
            discounts=Discounts(algorithm.gamma, algorithm.lam, settings.gamma_turn, settings.lam_turn),
            embeddings=self._embedder(texts, metrics) if self._embedder is not None else None,
            texts=texts,
        )
        return estimator.compute(inputs, settings.options)

    def _put_zeros(self, batch: KVBatchMeta, written: Sequence[str]) -> None:
        """Give masked rows the fields that the estimator wrote for the others."""
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"]
        )
        mask = data["response_mask"]
        width = int(mask.offsets().diff().max())
        zeros = response_to_nested(torch.zeros(len(batch), width), mask)
        fields = {"advantages": zeros, "returns": zeros}
        if VALUE_MASK in written:
            fields[VALUE_MASK] = mask  # zeros already
        if self.config.algorithm.use_kl_in_reward:
            fields["token_level_rewards"] = zeros
        correction = self.config.algorithm.get("rollout_correction", None)
        if correction is not None and correction.get("rollout_is", None) is not None:
            fields["rollout_is_weights"] = zeros
        tq.kv_batch_put(
            keys=batch.keys, partition_id=batch.partition_id, fields=TensorDict(fields, batch_size=len(batch))
        )

    def _compute_metrics(
        self, batch: KVBatchMeta, metrics: dict[str, Any], timing_raw: Any, global_steps: int, epoch: int
    ) -> None:
        super()._compute_metrics(batch, metrics, timing_raw, global_steps=global_steps, epoch=epoch)
        keys = [k for k, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
        sessions = fetch_sessions(batch.select_keys(keys))
        trajectories = list({(t.uid, t.session): t for _, t in sessions}.values())
        metrics.update(self._read_rows(batch.partition_id, sessions))
        metrics.update(summarise(trajectories))
        for reason, count in mask_reasons(trajectories).items():
            logger.warning("step %d: %d session(s) masked, %s", global_steps, count, reason)
        write_trajectories(self.run_dir, global_steps, trajectories)
        write_metrics(self.run_dir, global_steps, metrics)

    def _read_rows(self, partition_id: str, sessions: list[tuple[str, Trajectory]]) -> dict[str, float]:
        """Add the trainer's log-probs to the turns of each row that counts, and report the turns' numbers."""
        rows = [(k, t) for k, t in sessions if not t.masked]
        if not rows:
            return {}
        fields = ["old_log_probs", "response_mask", "turn_index", "rm_scores", "advantages", "returns"]
        if self.use_critic:
            fields.append("values")
        keys, trajectories = [k for k, _ in rows], [t for _, t in rows]
        data = tq.kv_batch_get(keys=keys, partition_id=partition_id, select_fields=fields)
        columns = zip(rows, data["old_log_probs"].unbind(), data["response_mask"].unbind(), strict=True)
        for (key, trajectory), log_probs, mask in columns:
            row = int(key.rsplit("_", 1)[1])
            attach_trainer_log_probs(trajectory, log_probs[mask.bool()].tolist(), row=row)
        return turn_report(keys, trajectories, data)

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        reward_extra_infos_dict: dict[str, list[Any]],
        sample_turns: list[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        lines = reward_extra_infos_dict.pop(TRAJECTORY, [])
        trajectories = [Trajectory.from_dict(json.loads(line)) for line in lines if line is not None]
        if len(trajectories) == len(data_sources):
            add_columns(reward_extra_infos_dict, trajectories)
        write_trajectories(self.run_dir, self.global_steps, trajectories, validation=True)
        values = super()._val_metrics_update(
            data_sources,
            sample_uids,
            reward_extra_infos_dict,
            sample_turns,
            expected_acc_counts=expected_acc_counts,
        )
        totals = {
            name.replace(PREFIX, f"val-aux/{PREFIX}", 1): v for name, v in summarise(trajectories).items()
        }
        write_metrics(self.run_dir, self.global_steps, {**values, **totals}, validation=True)
        return {**values, **totals}
