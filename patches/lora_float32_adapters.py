"""LoRA adapters are trained in float32, even if the frozen base model is in bfloat16.

Upstream: verl 0.9.1, `verl/workers/engine/fsdp/transformer_impl.py`,
`FSDPEngine._build_lora_module`. With `fsdp_config.model_dtype=bfloat16`, which halves the frozen
base, it casts new adapters to bfloat16, because FSDP1 flattens both into one tensor. AdamW then
updates in bfloat16: steps below 1/256 of a weight of 1 are rounded away, and with a learning rate
of 1e-5 they are smaller. FSDP2 shards tensors one by one, and only requires all trained tensors to
have the same type.

Here, with FSDP2, trained parameters are in float32. Computation is in bfloat16, as for all others
(`param_dtype`).

No longer needed once verl leaves adapters in float32 with FSDP2.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch import nn

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    build = module.FSDPEngine._build_lora_module

    def _build_lora_module(self: Any, base: nn.Module) -> nn.Module:
        made = build(self, base)
        if self.engine_config.strategy == "fsdp2":
            for parameter in made.parameters():
                if parameter.requires_grad:
                    parameter.data = parameter.data.to(torch.float32)
        return made

    replace(module.FSDPEngine, "_build_lora_module", _build_lora_module)


PATCH = Patch(
    name="lora_float32_adapters",
    package="verl",
    versions="==0.9.1",
    reference="verl/workers/engine/fsdp/transformer_impl.py::FSDPEngine._build_lora_module",
    reason="adapters of a bfloat16 base are trained in bfloat16, which rounds their updates away",
    target_module="verl.workers.engine.fsdp.transformer_impl",
    apply=_apply,
    processes=TRAINING,
)
