"""Make mini-batches with untrained rows and tokens, as verl's V1 trainer passes them to workers.

A row is spelled with one letter for each token of its response; `tools.gpu_check.loss_reference`
has the letters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from docagent_rl.training.tensors import ROLLOUT_MASK, response_part
from docagent_rl.training.workers.critic import VALUE_MASK
from docagent_rl.training.workers.trajectory_loss import TRAJECTORY_TOKENS
from docagent_rl.training.workers.turn_loss import TURN_LENGTHS
from tools.gpu_check.batches import nested
from tools.gpu_check.loss_reference import IMAGES, OBSERVED, TARGETS, TRAINED, turns_of

NUMBER = "row_number"
"""The field of a batch with the number of each row, nested."""
FIELDS = ("old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights", "values", "returns")
OUTPUTS = {"log_probs": "log_probs", "entropy": "entropy", "values": "vpreds"}
"""verl's names of the model's outputs, with the names in the reference. They differ for values,
because `values` in a batch are the old ones.
"""


@dataclass(frozen=True)
class SpelledRow:
    """A row: the length of its prompt, its response in letters, and its trajectory."""

    prompt: int
    kinds: str
    trajectory: int


PLAIN = [
    SpelledRow(3, "soiispps", 0),
    SpelledRow(4, "pss", 1),
    SpelledRow(2, "soiios", 0),
    SpelledRow(5, "sssps", 2),
    SpelledRow(3, "iisoos", 1),
    SpelledRow(2, "sps", 3),
    SpelledRow(4, "oops", 4),
    SpelledRow(3, "s", 2),
]
"""Rows of one trajectory in different micro-batches, mini-batches and workers."""
MASKED = {1: SpelledRow(4, "o", 5), 6: SpelledRow(2, "oiio", 4)}
"""Rows of masked trajectories: one with a filler, like ours, and one with observations."""
EMPTY = {3: SpelledRow(9, "o", 6), 7: SpelledRow(9, "o", 7)}
"""The rows with which verl fills up mini-batches (`padding_utils`), but shorter."""
REJECTED = {
    0: SpelledRow(3, "roiisrps", 0),
    2: SpelledRow(2, "roiior", 0),
    5: SpelledRow(2, "rrp", 3),
}
"""Rejections: some tokens of rows, and a whole row."""


def _changed(*changes: Mapping[int, SpelledRow]) -> list[SpelledRow]:
    rows = dict(enumerate(PLAIN))
    for change in changes:
        rows |= change
    return list(rows.values())


MASKS = {
    "all trained": PLAIN,
    "masked": _changed(MASKED),
    "empty": _changed(EMPTY),
    "rejected": _changed(REJECTED),
    "masked, empty, rejected": _changed(MASKED, EMPTY, REJECTED),
}
"""Batches of eight rows, by what is not trained."""


def wholes(rows: Sequence[SpelledRow]) -> list[int]:
    """Return the number of trained tokens in the trajectory of each row."""
    counted: Counter[int] = Counter()
    for row in rows:
        counted[row.trajectory] += _count(row, TRAINED)
    return [counted[row.trajectory] for row in rows]


def _count(row: SpelledRow, letters: frozenset[str]) -> int:
    return sum(kind in letters for kind in row.kinds)


def make_batch(
    rows: Sequence[SpelledRow], words: tuple[int, int], image: int, seed: int = 0
) -> TensorDict:
    """Return rows with their tokens and masks, before any pass.

    Args:
        rows: spelled rows.
        words: range of token ids that are drawn, as first and end.
        image: the placeholder for images.
        seed: for the tokens.
    """
    draw = torch.Generator().manual_seed(seed)
    columns: dict[str, list[Tensor]] = {}

    def add(name: str, row: Tensor) -> None:
        columns.setdefault(name, []).append(row)

    def mask(row: SpelledRow, letters: frozenset[str]) -> Tensor:
        return torch.tensor([int(kind in letters) for kind in row.kinds])

    for number, (row, whole) in enumerate(zip(rows, wholes(rows), strict=True)):
        prompt = torch.randint(*words, (row.prompt,), generator=draw)
        drawn = torch.randint(*words, (len(row.kinds),), generator=draw)
        response = torch.where(mask(row, IMAGES).bool(), image, drawn)
        add("prompts", prompt)
        add("responses", response)
        add("input_ids", torch.cat([prompt, response]))
        add("position_ids", torch.arange(row.prompt + len(row.kinds)))
        add("response_mask", mask(row, TRAINED))
        # a rejection changes only the mask of the response
        add("loss_mask", 1 - mask(row, OBSERVED))
        add(ROLLOUT_MASK, 1 - mask(row, OBSERVED))
        add(VALUE_MASK, mask(row, TARGETS))
        add(TRAJECTORY_TOKENS, torch.tensor([whole]))
        add(TURN_LENGTHS, torch.tensor([len(turn) for turn in turns_of(row.kinds)]))
        add(NUMBER, torch.tensor([number]))
    data = TensorDict(
        {name: nested(found) for name, found in columns.items()}, batch_size=len(rows)
    )
    tu.assign_non_tensor(data, temperature=1.0, pad_token_id=0)
    return data


def add_numbers(data: TensorDict, own: Sequence[Tensor], seed: int = 1) -> None:
    """Add the fields that the trainer's passes leave in a batch.

    They are drawn around `own`, the current outputs (t,) for each row's response. Ratios lie on
    both sides of every clip, and some divergences beyond their bound.
    """
    draw = torch.Generator().manual_seed(seed)
    columns: dict[str, list[Tensor]] = {name: [] for name in FIELDS}
    masks = (data[ROLLOUT_MASK].unbind(), data["response_mask"].unbind())
    for output, sampled, trained in zip(own, *masks, strict=True):

        def noise(scale: float, like: Tensor = output) -> Tensor:
            return scale * torch.randn(like.shape, generator=draw)

        columns["old_log_probs"].append(output + noise(0.4))
        columns["ref_log_prob"].append(output + noise(1.6))
        # rows that are left out contain zeros (`DocAgentTrainerMixin._put_zeros`)
        columns["advantages"].append(noise(2.0) * sampled * trained.any())
        columns["rollout_is_weights"].append((0.5 + noise(0.5).abs()) * trained.any())
        columns["values"].append(output + noise(1.0))
        columns["returns"].append(output + noise(1.0))
    for name, rows in columns.items():
        data[name] = nested(rows)


@dataclass(frozen=True)
class SeenRow:
    """The outputs (t,) of a row's response that a loss got, and their gradients, by name."""

    outputs: Mapping[str, Tensor]
    gradients: Mapping[str, Tensor]


class Recorder:
    """A loss that calls another loss, and records each row's outputs and gradients on the CPU."""

    def __init__(self, loss: Callable[..., tuple[Tensor, dict[str, Any]]]) -> None:
        self._loss = loss
        self.rows: dict[int, SeenRow] = {}

    def __call__(
        self, model_output: dict[str, Any], data: TensorDict, dp_group: Any = None
    ) -> tuple[Tensor, dict[str, Any]]:
        """Return the loss of a micro-batch and its metrics."""
        names = [name for name in OUTPUTS if model_output.get(name) is not None]
        leaves = {
            name: model_output[name].values().detach().clone().requires_grad_() for name in names
        }
        offsets = model_output[names[0]].offsets()
        own = {
            name: torch.nested.nested_tensor_from_jagged(leaf, offsets)
            for name, leaf in leaves.items()
        }
        value, _ = self._loss(model_output={**model_output, **own}, data=data, dp_group=dp_group)
        parts = torch.autograd.grad(
            value, list(leaves.values()), allow_unused=True, materialize_grads=True
        )
        gradients = {
            name: torch.nested.nested_tensor_from_jagged(part, offsets)
            for name, part in zip(names, parts, strict=True)
        }
        outputs = {name: _rows(model_output[name].detach(), data) for name in names}
        slopes = {name: _rows(gradients[name], data) for name in names}
        for place, number in enumerate(data[NUMBER].values().tolist()):
            self.rows[number] = SeenRow(
                {OUTPUTS[name]: outputs[name][place] for name in names},
                {OUTPUTS[name]: slopes[name][place] for name in names},
            )
        return self._loss(model_output=model_output, data=data, dp_group=dp_group)


def _rows(whole: Tensor, data: TensorDict) -> list[Tensor]:
    return [row.cpu().clone() for row in response_part(whole, data)]
