"""Fused kernels find the output head gathered.

Upstream: verl 0.9.1, `verl/utils/fsdp_utils.py`, `_select_fsdp2_wrap_targets`. FSDP2 shards the
head of a model with untied embeddings as a unit of its own, gathered when the head is called. Fused
forward passes never call it: they read `lm_head.weight`, find a shard, and end with "got mixed
torch.Tensor and DTensor". So `use_fused_kernels` fails under fsdp2 for every model but small ones
with tied embeddings.

Here the head of a model with fused kernels belongs to the root's unit, as it does where embeddings
are tied: gathered during the forward pass, sharded again after it, gathered for the backward pass.

Unneeded once verl leaves the head to the root or gathers it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace

FUSED = "_verl_fused_kernels_backend"
"""The attribute that verl sets on a model whose forward pass it fuses."""
HEAD = "lm_head"


def _apply(module: ModuleType) -> None:
    select = module._select_fsdp2_wrap_targets

    def _select_fsdp2_wrap_targets(
        model: Any, fsdp_transformer_layer_cls_to_wrap: list[str]
    ) -> list[Any]:
        chosen = select(model, fsdp_transformer_layer_cls_to_wrap)
        if getattr(model, FUSED, None) is None:
            return chosen
        heads = {
            id(part) for name, part in model.named_modules() if name.rpartition(".")[2] == HEAD
        }
        return [part for part in chosen if id(part) not in heads]

    replace(module, "_select_fsdp2_wrap_targets", _select_fsdp2_wrap_targets)


PATCH = Patch(
    name="fused_head_sharding",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/fsdp_utils.py::_select_fsdp2_wrap_targets",
    reason="with fsdp2, fused kernels of a model with untied embeddings read a shard of its head "
    "and fail",
    target_module="verl.utils.fsdp_utils",
    apply=_apply,
    processes=TRAINING,
)
