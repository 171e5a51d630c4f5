"""Micro-batches in the layout of verl's V1 trainer, from strings."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu

from docagent_rl.losses.config import KlPlace, KlScope
from docagent_rl.losses.positions import ObservationRule
from docagent_rl.training.losses.visual_kl import Totals

IMAGE = 5
KINDS = {"s": 7, "o": 9, "i": IMAGE}
"""Tokens of a response: sampled, other observation, image placeholder."""


def nested(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def rule(scope: KlScope = KlScope.IMAGE, at: KlPlace = KlPlace.LABEL) -> ObservationRule:
    return ObservationRule(scope, at, IMAGE)


def batch(responses: list[str], prompts: list[int]) -> TensorDict:
    """Rows of prompts of the given lengths and responses spelled with the letters of `KINDS`."""
    columns = {
        "prompts": [torch.full((n,), 3) for n in prompts],
        "responses": [torch.tensor([KINDS[kind] for kind in text]) for text in responses],
        "response_mask": [torch.tensor([int(kind == "s") for kind in text]) for text in responses],
    }
    columns["input_ids"] = [
        torch.cat(pair) for pair in zip(columns["prompts"], columns["responses"], strict=True)
    ]
    return TensorDict({name: nested(rows) for name, rows in columns.items()}, batch_size=len(responses))


def with_numbers(data: TensorDict, totals: Totals, *, tokens: int, rows: int, workers: int = 1) -> TensorDict:
    """What verl's engine and `PolicyWorker` add to a micro-batch: counts over the whole mini-batch."""
    data = data.copy()
    tu.assign_non_tensor(
        data, dp_size=workers, batch_num_tokens=tokens, global_batch_size=rows, **totals.fields()
    )
    return data


def ragged(rows: list[list[float]], dtype: torch.dtype = torch.float32) -> Tensor:
    return nested([torch.tensor(row, dtype=dtype) for row in rows])
