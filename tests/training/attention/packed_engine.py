"""A tiny Qwen2.5-VL in verl's FSDP2 engines: packed rows through flash attention against padded ones.

Usage: packed_engine.py FOLDER, with the environment of a single worker. Prints a line of JSON.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.training.workers.frozen_engine import batch, whole, worker  # first: it sets the environment

# ruff: isort: split
import torch
from tensordict import TensorDict
from torch import Tensor
from verl.utils import tensordict_utils as tu
from verl.utils.distributed import initialize_global_process_group_ray
from verl.workers.engine_workers import TrainingWorker

from docagent_rl.tiny.qwen2_5_vl import build_tiny_qwen2_5_vl
from docagent_rl.training.losses.batch import response_part
from docagent_rl.training.workers.critic import CriticWorker

PADDED: dict[str, Any] = {"rows": 4, "frozen": False}
FLASH = {"use_remove_padding": True, "override_config": {"attn_implementation": "flash_attention_2"}}
PACKED = PADDED | {"model": FLASH}
VARIANTS: dict[str, dict[str, Any]] = {
    "whole batch": {},
    "two rows a pack": {"rows": 2},
    "one row a pack": {"rows": 1},
    "checkpointing": {"model": {**FLASH, "enable_gradient_checkpointing": True}},
    "fused kernels": {
        "model": {**FLASH, "use_fused_kernels": True, "fused_kernel_options": {"impl_backend": "torch"}}
    },
    "determined": {"engine": {"full_determinism": True}},
}


def outputs(made: TrainingWorker, data: TensorDict, name: str) -> Tensor:
    """Of all responses, one after the other; none on ranks that only help another."""
    data = data.copy()
    tu.assign_non_tensor(data, compute_loss=False)
    found = made.infer_batch(data)
    if found is None:
        return torch.empty(0)
    return torch.cat([row.clone() for row in response_part(found[name], data)])


def gradients(made: TrainingWorker, data: TensorDict, copies: int = 1) -> dict[str, Tensor]:
    """Of one mini-batch: `data`, which so many ranks have each."""
    data, found = data.copy(), {}
    step = made.engine.optimizer_step

    def keep() -> float:
        for name, parameter in made.engine.module.named_parameters():
            if parameter.grad is not None:
                found[name.replace("_checkpoint_wrapped_module.", "")] = whole(parameter.grad).clone()
        return step()

    made.engine.optimizer_step = keep
    rows = copies * len(data)
    tu.assign_non_tensor(data, mini_batch_size=rows, global_batch_size=rows, epochs=1)
    made.train_mini_batch(data)
    made.engine.optimizer_step = step
    return found


def difference(found: dict[str, Tensor], expected: dict[str, Tensor]) -> dict[str, Any]:
    """Of all gradients together, in parts of their norm."""
    wrong = sum(float((found[name] - value).square().sum()) for name, value in expected.items())
    total = sum(float(value.square().sum()) for value in expected.values())
    return {"names": found.keys() == expected.keys(), "error": (wrong / total) ** 0.5, "norm": total**0.5}


def compare(made: TrainingWorker, data: TensorDict, expected: tuple, name: str) -> dict[str, Any]:
    values = outputs(made, data, name)
    largest = float((values - expected[0]).abs().max())
    return {"values": largest, **difference(gradients(made, data), expected[1])}


def head(made: TrainingWorker) -> dict[str, Tensor]:
    """The value head's own parameters: random, and in no checkpoint."""
    named = made.engine.module.named_parameters()
    return {name: value.to_local() for name, value in named if name.startswith("v_head.")}


def same_head(made: TrainingWorker, values: dict[str, Tensor]) -> TrainingWorker:
    for name, parameter in head(made).items():
        parameter.data.copy_(values[name])
    return made


def main(folder: Path) -> None:
    initialize_global_process_group_ray()
    path = build_tiny_qwen2_5_vl(folder / "model", seed=0)
    settings = json.loads((path / "config.json").read_text())
    data = batch(settings["text_config"]["vocab_size"], settings["image_token_id"])
    actor, critic = worker(path, **PADDED), worker(path, kind=CriticWorker, **PADDED)
    values = {name: value.detach().clone() for name, value in head(critic).items()}
    expected = {
        "log_probs": (outputs(actor, data, "log_probs"), gradients(actor, data)),
        "values": (outputs(critic, data, "values"), gradients(critic, data)),
    }
    # from here on verl's changes of the model's classes are in place
    report = {
        name: compare(worker(path, **{**PACKED, **changes}), data, expected["log_probs"], "log_probs")
        for name, changes in VARIANTS.items()
    }
    packed = same_head(worker(path, kind=CriticWorker, **PACKED), values)
    report["critic"] = compare(packed, data, expected["values"], "values")
    offloaded = worker(path, **PACKED, engine={"forward_only": True})
    found = outputs(offloaded, data, "log_probs")
    report["reference"] = {"values": float((found - expected["log_probs"][0]).abs().max())}
    report["spread"] = {key: float(found.std()) for key, (found, _) in expected.items()}
    print(json.dumps(report))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
