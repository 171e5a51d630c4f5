"""A tiny critic in verl's FSDP2 engine, with targets on all sampled tokens and on some of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from docagent_rl.training.workers.critic import VALUE_MASK, CriticWorker
from tests.training import engines
from tests.training.losses.batches import nested


def report(folder: Path) -> dict[str, Any]:
    made = engines.worker(CriticWorker, engines.once(engines.text_model, folder / "model"))
    data = engines.text_batch()
    values = engines.outputs(made, data, "values")
    sampled = [row.bool() for row in data["response_mask"].unbind()]
    generator = torch.Generator().manual_seed(1)
    returns = [value + torch.randn(value.shape, generator=generator) for value in values]
    targets = [torch.rand(row.shape, generator=generator).lt(0.5) & row for row in sampled]
    elsewhere = [torch.where(at, row, row + 9) for at, row in zip(targets, returns, strict=True)]
    data["values"], data["returns"] = nested(values), nested(returns)
    _, every = engines.update(made, data)
    data[VALUE_MASK] = nested([row.long() for row in targets])
    gradients, some = engines.update(made, data)
    data["returns"] = nested(elsewhere)
    others, noise = engines.update(made, data)
    error = torch.cat(values) - torch.cat(returns)
    # the old value is the present one: the clipped loss is the plain one
    expected = [0.5 * float(error[torch.cat(masks)].square().mean()) for masks in (sampled, targets)]
    losses = [found["critic/vf_loss"][0] for found in (every, some, noise)]
    return {"losses": losses, "expected": expected, "error": engines.apart(others, gradients)}


if __name__ == "__main__":
    engines.program(report)
