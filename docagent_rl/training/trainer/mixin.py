"""This package's additions to verl's trainer, common to all trainer modes."""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl import DataProto
from verl.trainer.ppo.metric_utils import compute_throughout_metrics
from verl.workers.utils.padding import response_to_nested

from docagent_rl.advantages import Advantages, Discounts, Estimator
from docagent_rl.base.user_code import load_modules
from docagent_rl.config import DocAgentConfig, plain_section
from docagent_rl.losses.config import Aggregation
from docagent_rl.training.agent_loop.output import DIGEST, TRAJECTORY
from docagent_rl.training.nodes import check_nodes
from docagent_rl.training.tensors import TURN, partition, row_lengths, tensor
from docagent_rl.training.trainer.accounts import Accounts, account_for_trajectories, check_failed
from docagent_rl.training.trainer.archive import INTERRUPTED, write_lines, write_metrics
from docagent_rl.training.trainer.archiving import ArchivingMixin, group_similarities
from docagent_rl.training.trainer.base import before_each_poll
from docagent_rl.training.trainer.checkpoints import CheckpointsMixin
from docagent_rl.training.trainer.columns import SampledColumns, rows_with_samples
from docagent_rl.training.trainer.embedding import TrajectoryEmbedder
from docagent_rl.training.trainer.estimators import (
    computing,
    install_estimators,
    our_estimator,
)
from docagent_rl.training.trainer.inputs import advantage_inputs
from docagent_rl.training.trainer.passes import NamedImagesMixin, PassFieldsMixin
from docagent_rl.training.trainer.replacing import ReplacingMixin
from docagent_rl.training.trainer.replay_buffer import filter_by_trajectory
from docagent_rl.training.trainer.reporting import ReportingMixin
from docagent_rl.training.trainer.rollout_correction import (
    check_agreement,
    check_something_is_left,
    keep_rollout_mask,
    may_reject,
)
from docagent_rl.training.trainer.stopping import StoppingMixin
from docagent_rl.training.trainer.summary import PREFIX, mask_reasons, summarise, validation_table
from docagent_rl.training.trainer.trajectory_reader import (
    TrajectoryReader,
    distinct,
    read_validation_digests,
)
from docagent_rl.training.workers.critic import (
    VALUE_MASK,
    critic_kinds,
    install_critic,
    pass_micro_batch_sizes,
)
from docagent_rl.training.workers.policy import install_workers, policy_kinds
from docagent_rl.training.workers.trajectory_loss import put_trajectory_tokens
from docagent_rl.training.workers.turn_loss import put_turn_lengths

logger = logging.getLogger(__name__)

TOKENS = "perf/total_num_tokens"
"""verl's metric with the number of tokens of a step."""
POLL_S = 0.2
"""Seconds between two polls of the queue, which delay a step; verl's 2 s cannot be configured."""
TRAJECTORIES_OF_PROMPT = "__rollout_n__"
"""verl's column for the number of trajectories of a prompt, if it is not `rollout.n`."""


class DocAgentTrainerMixin(
    ReportingMixin,
    PassFieldsMixin,
    NamedImagesMixin,
    StoppingMixin,
    ReplacingMixin,
    CheckpointsMixin,
    ArchivingMixin,
):
    """A mixin in front of one of verl's V1 trainers.

    It masks failed trajectories out of the group statistics, passes the turns of all trajectories
    to this package's estimators, writes trajectories and logs their metrics. `verl_mode` is the
    name of verl's trainer: verl compares the configured name in several places (replay buffer, data
    loader, checkpoint).
    """

    def __init__(self, config: DictConfig) -> None:
        config.trainer.v1.trainer_mode = self.verl_mode
        self.docagent = DocAgentConfig.parse(plain_section(config.docagent))
        load_modules(self.docagent.modules)
        install_estimators()
        self._estimator = our_estimator(config.algorithm.adv_estimator)
        self._embedder = None
        embeds = self._estimator is not None and self._estimator.embeds
        check_nodes(config, embeds=embeds)
        if embeds:
            # created here, so that it loads its model while the workers start
            self._embedder = TrajectoryEmbedder(
                self.docagent.advantage.embedder, str(config.trainer.device)
            )
        pass_micro_batch_sizes(config.critic)
        self._reader = TrajectoryReader()
        self._accounts = Accounts(self.run_dir, int(config.actor_rollout_ref.rollout.n))
        super().__init__(config)

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        install_workers(self.role_worker_mapping, policy_kinds(self.config, self.docagent))
        kinds = critic_kinds(self.config, self.docagent, ours=self._estimator is not None)
        install_critic(self.role_worker_mapping, kinds)

    def _build_replay_buffer(self) -> Any:
        # imported here, because it imports the trainer modes, which import this module
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

        buffer = super()._build_replay_buffer()
        if not isinstance(buffer, ReplayBuffer):
            return buffer  # the user's own
        buffer.poll_interval = POLL_S
        filter_by_trajectory(buffer, self.config.data.train_batch_size, self._reader)
        replays = partial(self._replace_the_dead, at_once=True)
        account_for_trajectories(buffer, self._accounts, self._reader, self.release_images, replays)
        before_each_poll(buffer, self._give_up_in_time)
        before_each_poll(buffer, self._replace_the_dead)
        return buffer

    def _submit_batch_to_rollout(self, batch: TensorDict) -> int:
        numbers = list(batch[TRAJECTORIES_OF_PROMPT]) if TRAJECTORIES_OF_PROMPT in batch else None
        self._accounts.ask(batch["uid"], numbers)
        return super()._submit_batch_to_rollout(batch)

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        trajectories = dict(self._reader.fetch(batch))
        counting = {key for key, trajectory in trajectories.items() if not trajectory.masked}
        counting |= rows_with_samples(
            [key for key in batch.keys if key not in trajectories], partition(batch)
        )
        kept = [key for key in batch.keys if key in counting]
        if not kept:
            reasons = mask_reasons(distinct(trajectories.items()))
            raise RuntimeError(f"every trajectory of step {self.global_steps} is masked: {reasons}")
        rejects = may_reject(self.config)
        if rejects:
            keep_rollout_mask(batch)
        if len(kept) == len(batch.keys):
            computed = self._estimate(batch, metrics)
        else:
            computed = self._estimate_some(batch, kept, metrics)
        if rejects:
            check_something_is_left(batch, self.global_steps)
        return computed

    def _estimate_some(
        self, batch: KVBatchMeta, kept: list[str], metrics: dict[str, Any]
    ) -> KVBatchMeta:
        """Compute the advantages of the kept rows only from these rows, and zeros for the
        others.
        """
        computed = self._estimate(batch.select_keys(kept), metrics)
        masked = batch.select_keys([k for k in batch.keys if k not in set(kept)])
        self._put_zeros(masked, computed.fields or ())
        return KVBatchMeta(
            keys=batch.keys,
            tags=batch.tags,
            partition_id=batch.partition_id,
            fields=computed.fields,
            extra_info=batch.extra_info,
        )

    def _estimate(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Let verl compute advantages; pass trajectories and turns to this package's estimators."""
        estimator = self._estimator
        if estimator is None:
            return super()._compute_advantage(batch, metrics)

        targets = None

        def compute(token_rewards: torch.Tensor, mask: torch.Tensor) -> Advantages:
            nonlocal targets
            names = ["values"] if self.use_critic else []
            columns = SampledColumns.fetch(batch.keys, partition(batch), names)
            result = self._advantages(
                estimator, batch, columns, columns.gathered(token_rewards), metrics
            )
            metrics.update(result.metrics)
            # exclude the tokens that verl has rejected
            result = result.within(columns.gathered(mask))
            self._keep(batch, columns, token_rewards, result)
            if self.use_critic and result.value_mask is not None:
                targets = columns.nested(result.value_mask.long())
            width = token_rewards.shape[1]
            return replace(
                result,
                advantages=columns.scattered(result.advantages, width),
                returns=columns.scattered(result.returns, width),
                value_mask=None,
            )

        with computing(compute):
            computed = super()._compute_advantage(batch, metrics)
        if targets is None:
            return computed
        fields = TensorDict({VALUE_MASK: targets}, batch_size=len(batch))
        return tq.kv_batch_put(keys=computed.keys, partition_id=partition(computed), fields=fields)

    def _advantages(
        self,
        estimator: Estimator,
        batch: KVBatchMeta,
        columns: SampledColumns,
        token_rewards: torch.Tensor,
        metrics: dict[str, Any],
    ) -> Advantages:
        """Compute advantages (b, s) at sampled tokens only; observations are not passed on."""
        rows = self._reader.fetch(batch)
        if len(rows) != len(batch.keys):
            raise RuntimeError(
                f"algorithm.adv_estimator={estimator.name} needs trajectories of the agent loop "
                f"docagent, but {len(batch.keys) - len(rows)} rows of this batch come from another"
            )
        settings = self.docagent.advantage
        algorithm = self.config.algorithm
        embedder = cast("TrajectoryEmbedder", self._embedder)
        inputs = advantage_inputs(
            keys=batch.keys,
            trajectories=[digest for _, digest in rows],
            token_rewards=token_rewards,
            turn_index=columns.padded(TURN, -1),
            values=columns.padded("values") if self.use_critic else None,
            discounts=Discounts(
                algorithm.gamma, algorithm.lam, settings.gamma_turn, settings.lam_turn
            ),
            needs=estimator.needs,
            embed=lambda texts: embedder(texts, metrics),
        )
        if self.docagent.credit and inputs.embeddings is not None:
            self._similarities = group_similarities(batch.keys, inputs.embeddings)
        return estimator.compute(inputs, settings.options)

    def _put_zeros(self, batch: KVBatchMeta, written: Sequence[str]) -> None:
        """Write zeros for masked rows to the fields that the estimator wrote for the others."""
        data = tq.kv_batch_get(
            keys=batch.keys, partition_id=partition(batch), select_fields=["response_mask"]
        )
        mask = tensor(data, "response_mask")
        width = int(row_lengths(data, "response_mask").max())
        zeros = response_to_nested(torch.zeros(len(batch), width), mask)
        fields = {"advantages": zeros, "returns": zeros}
        if VALUE_MASK in written:
            fields[VALUE_MASK] = mask  # already zero in masked rows
        if self.config.algorithm.use_kl_in_reward:
            fields["token_level_rewards"] = zeros
        correction = self.config.algorithm.get("rollout_correction", None)
        if correction is not None and correction.get("rollout_is", None) is not None:
            fields["rollout_is_weights"] = zeros
        tq.kv_batch_put(
            keys=batch.keys,
            partition_id=partition(batch),
            fields=TensorDict({**fields}, batch_size=len(batch)),
        )

    def _update_actor(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        match self.docagent.loss.aggregation:
            case Aggregation.TRAJECTORY:
                batch = put_trajectory_tokens(batch)
            case Aggregation.TURN:
                batch = put_turn_lengths(batch)
        return super()._update_actor(batch, metrics)

    def step(self, metrics: dict[str, Any], timing_raw: dict[str, float]) -> KVBatchMeta:
        """Run a step as verl does, and log verl's metrics of it.

        The files of the step are written in the background, and are complete before its checkpoint
        is.
        """
        began = time.perf_counter()
        batch = super().step(metrics, timing_raw)
        metrics.update(self._archive(batch))
        gauges = getattr(self.agent_loop_manager, "gauges", None)  # another manager has none
        metrics.update({} if gauges is None else gauges())
        timing = {**timing_raw, "step": time.perf_counter() - began}
        epoch = (self.global_steps - 1) // self.steps_per_epoch
        super()._compute_metrics(
            batch, metrics, timing, global_steps=self.global_steps, epoch=epoch
        )
        write_metrics(self.run_dir, self.global_steps, {**metrics, INTERRUPTED: 1.0})
        # now the trajectories are on disk for inspection, and no checkpoint has been saved yet
        check_agreement(metrics, self.docagent.watch.most_apart, self.global_steps)
        return batch

    def _compute_metrics(
        self,
        batch: KVBatchMeta,
        metrics: dict[str, Any],
        timing_raw: Any,
        global_steps: int,
        epoch: int,
    ) -> None:
        """Update only what has changed since `step` computed verl's metrics.

        Computing all of them again would pad every row.
        """
        tokens = cast(
            "DataProto", SimpleNamespace(meta_info={"global_token_num": [metrics[TOKENS]]})
        )
        n_gpus = self._get_n_gpus_for_throughput()
        metrics.update(compute_throughout_metrics(tokens, timing_raw, n_gpus))
        metrics.update({f"timing_s/{name}": seconds for name, seconds in timing_raw.items()})
        write_metrics(self.run_dir, global_steps, metrics)

    def _val_metrics_update(
        self,
        data_sources: list[str],
        sample_uids: list[str],
        reward_extra_infos_dict: dict[str, list[Any]],
        sample_turns: list[int],
        expected_acc_counts: dict[tuple[str, str], int] | None = None,
    ) -> dict[str, float]:
        lines = reward_extra_infos_dict.pop(TRAJECTORY, [])
        trajectories = read_validation_digests(
            reward_extra_infos_dict.pop(DIGEST, []), len(data_sources)
        )
        present = [trajectory for trajectory in trajectories if trajectory is not None]
        written = [
            (trajectory, [line.encode()])
            for trajectory, line in zip(trajectories, lines, strict=False)
            if trajectory is not None
        ]
        write_lines(self.run_dir, self.global_steps, written, validation=True)
        table = validation_table(
            data_sources, sample_uids, reward_extra_infos_dict, trajectories, expected_acc_counts
        )
        values = super()._val_metrics_update(
            table.sources,
            table.uids,
            table.columns,
            sample_turns,
            expected_acc_counts=expected_acc_counts,
        )
        for name, value in summarise(present, table.missing).items():
            values[name.replace(PREFIX, f"val-aux/{PREFIX}", 1)] = value
        reasons = mask_reasons(present)
        if table.missing:
            reasons["missing: an exception ended them, see the workers' log"] = table.missing
        for reason, count in reasons.items():
            logger.warning(
                "validation at step %d: %d of %d trajectories were not played and count as wrong "
                "(%s)",
                self.global_steps,
                count,
                len(table.uids),
                reason,
            )
        self._rate_checkpoint(values)
        write_metrics(self.run_dir, self.global_steps, values, validation=True)
        check_failed(present, self.run_dir)
        return values
