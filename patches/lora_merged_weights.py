"""LoRA's merged weights as the trainer computes with them: every adapter, and in the weights' own
type.

Upstream: verl 0.9.1, `verl/workers/engine/fsdp/transformer_impl.py`,
`FSDPEngine._merged_lora_per_tensor_param`, with `verl/utils/fsdp_utils.py`, `fsdp_merge_unmerge`.
Under FSDP2 it merges the units below the root, one by one. An adapter of a module in no such unit
stays out: those of Qwen2.5-VL's projector (`visual.merger`), so that the server plays another
policy than is trained (up to 0.67 nats a token of a small model). All sharded weights are sent as
bfloat16, whatever the server computes in.

Here a weight's adapters are added to it as it is sent, in float32; the weights in the trainer stay
untouched, so that no copy of the base is made for the time of an update.

Unneeded once verl merges adapters of the root's unit and sends weights in their type.
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
    """Yield each weight of the base of an FSDP2 module with its adapters, whole, by its name in the
    base.

    Gathers tensors, so that all ranks have to run through it together.

    Raises:
        UserError: adapters of something else than linear layers.
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
    """Yield the layers that have an adapter, by the name of their base's weight."""
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
    """Return a copy: what is sent may wait while the trainer goes on."""
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
