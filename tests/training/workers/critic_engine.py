"""Updates a tiny critic in verl's FSDP2 engine, with targets on all sampled tokens and on some of them.

Usage: critic_engine.py FOLDER, with the environment of a single worker. Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.utils.metric import Metric
from verl.workers.config import FSDPCriticConfig
from verl.workers.utils.losses import value_loss

from docagent_rl.training.losses.batch import response_part
from docagent_rl.training.workers.critic import VALUE_MASK, CriticWorker
from tests.training.losses.engine_run import (  # first: it sets the environment
    batch,
    checkpoint,
    nested,
    worker,
)

CLIP = 0.5


def critic(path: Path) -> CriticWorker:
    made = worker(CriticWorker, path, frozen=False, model_type="value_model")
    config = FSDPCriticConfig(
        strategy="fsdp2", cliprange_value=CLIP, ppo_micro_batch_size_per_gpu=2, rollout_n=1
    )
    made.set_loss_fn(partial(value_loss, config=config))
    return made


def values_of(made: CriticWorker, data: TensorDict) -> list[Tensor]:
    """Of each row's response."""
    data = data.copy()
    tu.assign_non_tensor(data, compute_loss=False)
    return [row.clone() for row in response_part(made.infer_batch(data)["values"], data)]


def update(made: CriticWorker, data: TensorDict) -> dict[str, float]:
    """The loss of one mini-batch, and the norm of its gradient."""
    data = data.copy()
    tu.assign_non_tensor(data, mini_batch_size=len(data), global_batch_size=len(data), epochs=1)
    found = tu.get(made.train_mini_batch(data), "metrics")
    return {name: number(found[name]) for name in ("critic/vf_loss", "grad_norm")}


def number(value: object) -> float:
    value = value[0] if isinstance(value, list) else value
    return float(value.aggregate() if isinstance(value, Metric) else value)


def main(folder: Path) -> None:
    initialize_global_process_group_ray()
    data = batch()
    tu.assign_non_tensor(data, temperature=1.0, pad_token_id=0)
    made = critic(checkpoint(folder / "model", tied=False))
    values = values_of(made, data)
    sampled = [row.bool() for row in data["response_mask"].unbind()]
    generator = torch.Generator().manual_seed(1)
    returns = [value + torch.randn(value.shape, generator=generator) for value in values]
    targets = [torch.rand(row.shape, generator=generator).lt(0.5) & row for row in sampled]
    data["values"], data["returns"] = nested(values), nested(returns)
    report = {"all": update(made, data)}
    data[VALUE_MASK] = nested([row.long() for row in targets])
    report["some"] = update(made, data)
    elsewhere = [torch.where(at, row, row + 9) for at, row in zip(targets, returns, strict=True)]
    data["returns"] = nested(elsewhere)
    report["noise elsewhere"] = update(made, data)
    for name, masks in (("all", sampled), ("some", targets)):
        error = (torch.cat(values) - torch.cat(returns))[torch.cat(masks)]
        # the old value is the present one: the clipped loss is the plain one
        report[name]["expected"] = 0.5 * float(error.square().mean())
    print(json.dumps(report))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
