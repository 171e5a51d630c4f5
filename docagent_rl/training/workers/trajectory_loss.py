"""verl's loss as the mean over trajectories of the mean over each trajectory's tokens (MM-Doc-R1,
Eq. 1).

    loss = 1/S * sum over trajectories i of 1/|o_i| * sum over tokens t of all rows of i of l[i, t]

l is whatever verl computes per token: clipped surrogate, entropy, KL. A mini-batch need not contain
all rows of a trajectory. |o_i| always counts the whole trajectory, and a trajectory that is partly
present counts as a fraction of a trajectory: S = sum over rows of (tokens of the row) / |o_i|. So
the weights in a mini-batch sum to 1, all whole trajectories in it have the same weight, and so have
all tokens of a trajectory. Mini-batches with different S are steps of equal size over different
numbers of trajectories.
"""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import transfer_queue as tq
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.utils.metric import AggregationType, Metric
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.training.tensors import partition, row_lengths, tensor

Loss = tuple[Tensor, dict[str, Any]]

TRAJECTORY_TOKENS = "trajectory_tokens"
"""Nested field of a batch, one integer per row: the number of tokens that count in all rows of the
row's trajectory.
"""
TRAJECTORIES = "trajectory_share"
"""Field of a micro-batch: S of its mini-batch, over all workers."""

_FIELDS = (
    "prompts",
    "responses",
    "response_mask",
    "old_log_probs",
    "advantages",
    "ref_log_prob",
    "rollout_is_weights",
)
_NUMBERS = ("dp_size", "batch_num_tokens", "global_batch_size")


def trajectory_tokens(data: TensorDict) -> list[int]:
    """Return the field `TRAJECTORY_TOKENS` of b rows as b integers."""
    return [int(row.flatten()[0]) for row in tensor(data, TRAJECTORY_TOKENS).unbind()]


def row_tokens(data: TensorDict) -> list[int]:
    """Return the number of tokens that count in each of b rows."""
    return [int(row.sum()) for row in tensor(data, "response_mask").unbind()]


def trajectories_in(data: TensorDict) -> float:
    """Return this worker's part of S."""
    pairs = zip(row_tokens(data), trajectory_tokens(data), strict=True)
    return sum(tokens / whole for tokens, whole in pairs if tokens)


class TrajectoryMeanLoss:
    """A loss for verl's `set_loss_fn`: the base loss, averaged by trajectory.

    Rows of trajectories of equal length are passed to the base loss together, and its result is
    divided by that length. This is exact because the base, verl's `ppo_loss` with the
    `loss_agg_mode` `token-sum`, is a sum over tokens.
    """

    def __init__(self, base: Callable[..., Loss]) -> None:
        self._base = base

    def __call__(
        self, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
    ) -> Loss:
        """Return the loss of a micro-batch and its metrics, in verl's layout.

        Metrics that verl sums over micro-batches are averaged by trajectory as well; its means over
        the tokens of a micro-batch are unchanged.
        """
        lengths = trajectory_tokens(data)
        tokens = row_tokens(data)
        # rows without tokens have no weight, so they are grouped under the length 0
        lengths = [length if count else 0 for length, count in zip(lengths, tokens, strict=True)]
        losses = []
        parts = []
        for length in sorted(set(lengths)):
            rows = [row for row, each in enumerate(lengths) if each == length]
            if not length and len(set(lengths)) > 1:
                continue
            weight = 1 / (length * cast("float", data[TRAJECTORIES])) if length else 0.0
            loss, metrics = self._base(
                model_output=_outputs(model_output, data, rows),
                data=_part(data, rows),
                dp_group=dp_group,
            )
            losses.append(loss * weight)
            parts.append((weight, sum(tokens[row] for row in rows), metrics))
        return functools.reduce(operator.add, losses), _joined(parts)


def _part(data: TensorDict, rows: Sequence[int]) -> TensorDict:
    names = [name for name in _FIELDS if name in data.keys()]  # noqa: SIM118  (iterates over rows)
    part = tu.index_select_tensor_dict(data.select(*names), list(rows))
    tu.assign_non_tensor(part, **{name: data[name] for name in _NUMBERS})
    return part


def _outputs(outputs: dict[str, Any], data: TensorDict, rows: Sequence[int]) -> dict[str, Tensor]:
    """Return the model's outputs for some rows, each (l,) over the tokens of prompts and
    responses.
    """
    lengths = row_lengths(data, "prompts") + row_lengths(data, "responses")
    ends = lengths.cumsum(0).tolist()
    places = [(end - length, end) for end, length in zip(ends, lengths.tolist(), strict=True)]
    found = {}
    for name in ("log_probs", "entropy"):
        if outputs.get(name) is not None:
            given = outputs[name]
            values = given.values() if given.is_nested else given
            found[name] = torch.cat([values[slice(*places[row])] for row in rows])
    return found


def _joined(parts: Sequence[tuple[float, int, dict[str, Any]]]) -> dict[str, Any]:
    """Combine the metrics of parts of a micro-batch by their weights and numbers of tokens."""
    joined: dict[str, Any] = {}
    all_tokens = max(sum(tokens for _, tokens, _ in parts), 1)
    for name, first in parts[0][2].items():
        if not isinstance(first, Metric):
            joined[name] = first
            continue
        sums = first.aggregation is AggregationType.SUM
        shares = [weight if sums else tokens / all_tokens for weight, tokens, _ in parts]
        values = [metrics[name].aggregate() for *_, metrics in parts]
        value = float(sum(share * value for share, value in zip(shares, values, strict=True)))
        joined[name] = Metric(first.aggregation, value)
    return joined


class TrajectoryCountWorker(TrainingWorker):
    """A worker that trains the policy, and counts the trajectories of each mini-batch."""

    def train_batch(self, data: TensorDict) -> TensorDict:
        """Train on one mini-batch as verl does."""
        share = torch.tensor(trajectories_in(data), dtype=torch.float64, device=get_device_id())
        torch.distributed.all_reduce(share, group=self.engine.get_data_parallel_group())
        tu.assign_non_tensor(data, **{TRAJECTORIES: share.item()})
        return super().train_batch(data)


def put_trajectory_tokens(batch: KVBatchMeta) -> KVBatchMeta:
    """Add to each row how many tokens of its trajectory count in the loss, for the policy's worker.

    Workers see rows, not trajectories, and not all rows of a trajectory. Tokens that have been
    rejected, and so removed from the mask, do not count.
    """
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=partition(batch), select_fields=["response_mask"]
    )
    trajectories = [key.rsplit("_", 1)[0] for key in batch.keys]
    whole: Counter[str] = Counter()
    for trajectory, tokens in zip(trajectories, row_tokens(data), strict=True):
        whole[trajectory] += tokens
    counts = [torch.tensor([whole[trajectory]]) for trajectory in trajectories]
    nested = torch.nested.as_nested_tensor(counts, layout=torch.jagged)
    fields = TensorDict({TRAJECTORY_TOKENS: nested}, batch_size=len(batch))
    return tq.kv_batch_put(keys=batch.keys, partition_id=partition(batch), fields=fields)
