"""Merged LoRA weights are sent with all adapters, and in the weights' own type.

Upstream: verl 0.9.1, `verl/workers/engine/fsdp/transformer_impl.py`,
`FSDPEngine._merged_lora_per_tensor_param`, with `verl/utils/fsdp_utils.py`, `fsdp_merge_unmerge`.
With FSDP2 it merges the units below the root one by one. Adapters of modules outside of these units
are not merged, such as those of Qwen2.5-VL's projector (`visual.merger`), so that the server plays
a different policy than the one that is trained (by up to 0.67 nats per token for a small model).
All sharded weights are sent as bfloat16, whatever type the server uses.

Here the adapters of a weight are added in float32 when the weight is sent; the weights in the
trainer do not change, so that an update needs no copy of the base model.

No longer needed once verl merges adapters in the root's unit, and sends weights in their own type.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from docagent_rl.base.errors import UserError
from docagent_rl.training.patching import TRAINING, Patch, replace


def merged_weights(module: Any, device: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the base model's weights of an FSDP2 module, merged and unsharded, with their names.

    This gathers tensors, so that all ranks have to iterate together.

    Raises:
        UserError: an adapter does not belong to a linear layer.
    """
    from verl.utils.fsdp_utils import normalize_peft_param_name
    from verl.utils.model import convert_weight_keys

    adapted = normalize_peft_param_name(dict(_adapted(module)))
    state = convert_weight_keys(normalize_peft_param_name(module.state_dict()), module)
    layers = convert_weight_keys(adapted, module)
    for name, value in state.items():
        weight = _whole(value, device)
        yield name, _merged(weight, layers[name], device) if name in layers else weight


def _adapted(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield the layers that have an adapter, with the name of their base weight."""
    from peft.tuners.lora import Linear, LoraLayer

    for name, layer in module.named_modules():
        if isinstance(layer, LoraLayer):
            if not isinstance(layer, Linear):
                raise UserError(f"{name}: adapters of {type(layer).__name__} cannot be merged")
            yield f"{name}.base_layer.weight", layer


@torch.no_grad()
def _merged(weight: Tensor, layer: Any, device: Any) -> Tensor:
    total = weight.float()
    for adapter in layer.active_adapters:
        a, b = (
            _whole(part[adapter].weight, device).float() for part in (layer.lora_A, layer.lora_B)
        )
        total = total + layer.scaling[adapter] * (b @ a)
    return total.to(weight.dtype)


def _whole(tensor: Any, device: Any) -> Tensor:
    """Return an unsharded copy, which stays valid if the trainer continues before it is sent."""
    if hasattr(tensor, "full_tensor"):
        return tensor.detach().to(device, non_blocking=True).full_tensor()
    return tensor.detach().clone()


def _apply(module: ModuleType) -> None:
    original = module.FSDPEngine._merged_lora_per_tensor_param

    def _merged_lora_per_tensor_param(self: Any) -> Iterator[tuple[str, Tensor]]:
        if module.fsdp_version(self.module) != 2:
            yield from original(self)
            return
        try:
            yield from merged_weights(self.module, module.get_device_id())
        finally:
            if self._is_offload_param:
                module.offload_fsdp_model_to_cpu(self.module)

    replace(module.FSDPEngine, "_merged_lora_per_tensor_param", _merged_lora_per_tensor_param)


PATCH = Patch(
    name="lora_merged_weights",
    package="verl",
    versions="==0.9.1",
    reference=(
        "verl/workers/engine/fsdp/transformer_impl.py::FSDPEngine._merged_lora_per_tensor_param; "
        "verl/utils/fsdp_utils.py::fsdp_merge_unmerge"
    ),
    reason="with lora.merge, adapters outside FSDP2's units are not merged, and weights are sent "
    "as bfloat16",
    target_module="verl.workers.engine.fsdp.transformer_impl",
    apply=_apply,
    processes=TRAINING,
)
