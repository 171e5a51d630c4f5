"""verl's loss as the mean over turns of the mean over each turn's tokens (ALDEN, Eq. 6).

    loss = 1/T * sum over turns k of 1/|a_k| * sum over the tokens i of turn k of l[k, i]

l is whatever verl computes per token: clipped surrogate, entropy, KL. T is the number of turns of
a mini-batch, over all workers, that have a token to train, and |a_k| is the number of such tokens
in turn k. All tokens of a turn are in the same row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from torch import Tensor
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.losses.turns import TurnRows, turn_lengths
from docagent_rl.training.tensors import (
    TURN,
    count,
    flat,
    jagged,
    partition,
    read_rows,
    response_part,
    tensor,
)

Loss = tuple[Tensor, dict[str, Any]]

TURN_LENGTHS = "turn_lengths"
"""Nested field of a batch: for each row the numbers of tokens of its turns (`turn_lengths`)."""
TURNS = "trained_turns"
"""Field of a micro-batch: T of its mini-batch, over all workers."""

_TOKEN_FIELDS = (
    "responses",
    "response_mask",
    "old_log_probs",
    "advantages",
    "ref_log_prob",
    "rollout_is_weights",
)


def arranged_by_turn(data: TensorDict) -> TurnRows:
    """Return the arrangement by turns of a batch's rows, from its field `TURN_LENGTHS`."""
    return TurnRows(flat(data, TURN_LENGTHS).tolist(), read_rows(data).real)


def trained_turns(data: TensorDict) -> int:
    """Count the turns of a batch that have at least one token to train."""
    rows = read_rows(data)
    turns = TurnRows(flat(data, TURN_LENGTHS).tolist(), rows.real)
    return int(turns.arranged(rows.trained).any(dim=1).sum())


class TurnMeanLoss:
    """A loss for verl's `set_loss_fn`: the base loss, in which each turn is a row of its own.

    This is exact because the base, verl's `ppo_loss` with the `loss_agg_mode`
    `seq-mean-token-mean`, averages over the tokens of each row and then over rows.
    """

    def __init__(self, base: Callable[..., Loss]) -> None:
        self._base = base

    def __call__(
        self, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
    ) -> Loss:
        """Return the loss of a micro-batch and its metrics, in verl's layout."""
        lengths = flat(data, TURN_LENGTHS).tolist()
        outputs = {
            name: _turn_outputs(model_output[name], data, lengths)
            for name in ("log_probs", "entropy")
            if model_output.get(name) is not None
        }
        return self._base(model_output=outputs, data=_turn_data(data, lengths), dp_group=dp_group)


def _turn_data(data: TensorDict, lengths: list[int]) -> TensorDict:
    """Return the batch with a row for each turn, whose prompt is a single token."""
    fields = {
        name: _nested(list(flat(data, name).split(lengths)))
        for name in _TOKEN_FIELDS
        if name in data.keys()  # noqa: SIM118  (iterates over rows)
    }
    fields["prompts"] = _nested([fields["responses"].values().new_zeros(1)] * len(lengths))
    turns = TensorDict({**fields}, batch_size=len(lengths))
    numbers = {name: data[name] for name in ("dp_size", "batch_num_tokens")}
    tu.assign_non_tensor(turns, **numbers, global_batch_size=count(data, TURNS))
    return turns


def _turn_outputs(output: Tensor, data: TensorDict, lengths: list[int]) -> Tensor:
    """Return a model's output over prompts and responses, arranged like `_turn_data`.

    As in verl's layout, the value of a token is at the position before it, so the last position of
    each row has no meaning.
    """
    given = output
    if not given.is_nested:
        given = torch.nested.nested_tensor_from_jagged(given, jagged(data, "input_ids").offsets())
    values = torch.cat(response_part(given, data))
    filler = values.new_zeros(1)
    return _nested([torch.cat([turn, filler]) for turn in values.split(lengths)])


def _nested(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


class TurnCountWorker(TrainingWorker):
    """A worker that trains the policy, and counts the turns of each mini-batch."""

    def train_batch(self, data: TensorDict) -> TensorDict:
        """Train on one mini-batch as verl does."""
        turns = torch.tensor(trained_turns(data), device=get_device_id())
        torch.distributed.all_reduce(turns, group=self.engine.get_data_parallel_group())
        # a mini-batch in which nothing is trained is skipped later
        tu.assign_non_tensor(data, **{TURNS: max(int(turns), 1)})
        return super().train_batch(data)


def row_turn_lengths(turn_index: Tensor, tokens: int) -> Tensor:
    """Return the lengths of the turns of a row whose response has so many tokens.

    A row with which verl fills up a mini-batch has a single token of its own, and all other fields
    of the row that it was copied from: it counts as one turn.
    """
    if len(turn_index) != tokens:
        return torch.tensor([tokens])
    return turn_lengths(turn_index)


def put_turn_lengths(batch: KVBatchMeta) -> KVBatchMeta:
    """Add to each row the lengths of its turns, for the policy's worker."""
    data = tq.kv_batch_get(
        keys=batch.keys, partition_id=partition(batch), select_fields=[TURN, "response_mask"]
    )
    rows = zip(tensor(data, TURN).unbind(), tensor(data, "response_mask").unbind(), strict=True)
    lengths = [row_turn_lengths(turn_index, len(mask)) for turn_index, mask in rows]
    fields = TensorDict({TURN_LENGTHS: _nested(lengths)}, batch_size=len(batch))
    return tq.kv_batch_put(keys=batch.keys, partition_id=partition(batch), fields=fields)
