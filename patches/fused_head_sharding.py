"""With fused kernels, the output head is unsharded when they read it.

Upstream: verl 0.9.1, `verl/utils/fsdp_utils.py`, `_select_fsdp2_wrap_targets`. FSDP2 shards the
head of a model with untied embeddings as a separate unit, which is gathered when the head is
called.
Fused forward passes never call it: they read `lm_head.weight`, find a shard, and fail with "got
mixed torch.Tensor and DTensor". So `use_fused_kernels` fails with fsdp2 for every model except
small ones with tied embeddings.

Here the head of a model with fused kernels belongs to the root's unit, as it does with tied
embeddings: it is gathered for the forward pass, resharded, and gathered again for the backward
pass.

No longer needed once verl leaves the head in the root's unit, or gathers it.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace

FUSED = "_verl_fused_kernels_backend"
"""The attribute that verl sets on a model with a fused forward pass."""
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
    reason="with fsdp2, fused kernels read only a shard of an untied output head, and fail",
    target_module="verl.utils.fsdp_utils",
    apply=_apply,
    processes=TRAINING,
)
