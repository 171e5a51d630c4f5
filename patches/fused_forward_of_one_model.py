"""Fused kernels change only the model that requested them, not every model of its class.

Upstream: verl 0.9.1, `verl/models/transformers/monkey_patch.py`, `patch_forward_with_backends`. It
sets the fused forward pass, which returns log-probs and no logits, on the model's class. The critic
is in the same process as the policy: it is trl's value head on another model of the same class, and
casts that model's logits. It then fails with "'NoneType' object has no attribute 'dtype'" in the
first step.

Here the fused forward pass is set on the model instance; the class keeps the ordinary one.

No longer needed once verl patches the instance.
"""

from __future__ import annotations

from types import MethodType, ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace


def _apply(module: ModuleType) -> None:
    patch = module.patch_forward_with_backends

    def patch_forward_with_backends(
        model: Any, use_fused_kernels: bool = False, fused_kernels_backend: str | None = None
    ) -> None:
        """Patch as upstream does, but only `model`."""
        kind = type(model)
        before = kind.forward
        patch(model, use_fused_kernels, fused_kernels_backend)
        fused = kind.forward
        kind.forward = before
        if fused is not before:
            model.forward = MethodType(fused, model)

    replace(module, "patch_forward_with_backends", patch_forward_with_backends)


PATCH = Patch(
    name="fused_forward_of_one_model",
    package="verl",
    versions="==0.9.1",
    reference="verl/models/transformers/monkey_patch.py::patch_forward_with_backends",
    reason="with fused kernels for the policy, a critic of the same class has no logits and fails",
    target_module="verl.models.transformers.monkey_patch",
    apply=_apply,
    processes=TRAINING,
)
