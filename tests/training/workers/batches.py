"""Micro-batches in the layout of verl's V1 trainer, made from strings; and verl's formulas for a
token, by hand.
"""

from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig

from docagent_rl.losses.config import KlPlace, KlScope
from docagent_rl.losses.positions import ObservationRule

IMAGE = 5
KINDS = {"s": 7, "o": 9, "i": IMAGE}
"""Tokens of a response: sampled, other observation, image placeholder."""
CLIP, KL = 0.2, 0.05


def nested(rows: list[Tensor]) -> Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def ragged(rows: list[list[float]], dtype: torch.dtype = torch.float32) -> Tensor:
    return nested([torch.tensor(row, dtype=dtype) for row in rows])


def rule(scope: KlScope = KlScope.IMAGE, at: KlPlace = KlPlace.LABEL) -> ObservationRule:
    return ObservationRule(scope, at, IMAGE)


def batch(responses: list[str], prompts: list[int]) -> TensorDict:
    """Return rows of prompts of the given lengths and of responses spelled with the letters of
    `KINDS`.
    """
    columns = {
        "prompts": [torch.full((n,), 3) for n in prompts],
        "responses": [torch.tensor([KINDS[kind] for kind in text]) for text in responses],
        "response_mask": [torch.tensor([int(kind == "s") for kind in text]) for text in responses],
    }
    pairs = zip(columns["prompts"], columns["responses"], strict=True)
    columns["input_ids"] = [torch.cat(pair) for pair in pairs]
    return TensorDict(
        {name: nested(rows) for name, rows in columns.items()}, batch_size=len(responses)
    )


def drawn(sizes: list[int], generator: torch.Generator, scale: float = 1.0) -> list[Tensor]:
    """Return rows of these lengths."""
    return [scale * torch.randn(n, generator=generator) for n in sizes]


def gradients(loss, data: TensorDict, **outputs: Tensor) -> tuple[float, dict, Tensor]:
    """Return the value and the metrics of a loss of `own` log-probs and other outputs of the model,
    and its gradient.
    """
    values = data["own"].values().clone().requires_grad_()
    own = torch.nested.nested_tensor_from_jagged(values, data["own"].offsets())
    value, metrics = loss(model_output={"log_probs": own, **outputs}, data=data)
    value.backward()
    return value.item(), metrics, values.grad


def with_numbers(
    data: TensorDict, totals: dict[str, int], *, tokens: int, rows: int, workers: int = 1
) -> TensorDict:
    """Return a micro-batch with the counts over the whole mini-batch that verl's engine and
    `PolicyWorker` add.
    """
    data = data.copy()
    numbers = {"dp_size": workers, "batch_num_tokens": tokens, "global_batch_size": rows}
    tu.assign_non_tensor(data, **numbers, **totals)
    return data


def actor(mode: str, **changes: Any) -> FSDPActorConfig:
    """Return the configuration of verl's PPO loss with a KL on sampled tokens."""
    plain = {
        "rollout_n": 1,
        "ppo_mini_batch_size": 4,
        "ppo_micro_batch_size_per_gpu": 4,
        "use_kl_loss": True,
    }
    return FSDPActorConfig(
        strategy="fsdp2", loss_agg_mode=mode, **{**plain, "kl_loss_coef": KL, **changes}
    )


def token_loss(
    own: Tensor, old: Tensor, ref: Tensor, a: Tensor, clip_c: float, weight: float = 1.0
) -> Tensor:
    """Return the clipped surrogate and the KL (k3) of a token, by hand."""
    ratio, d = (own - old).exp(), ref - own
    loss = torch.max(-a * ratio, -a * ratio.clamp(1 - CLIP, 1 + CLIP))
    if a < 0:
        loss = torch.min(loss, -a * clip_c)
    return loss * weight + KL * (d.exp() - d - 1).clamp(-10, 10)
