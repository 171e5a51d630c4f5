"""Fused kernels show the images to a model that verl has no fused forward pass for.

Upstream: verl 0.9.1, `verl/models/transformers/dense_common.py`, `forward_with_torch_backend` and
`forward_with_triton_backend`. `patch_forward_with_backends` gives them to every type of model that
it does not list, InternVL's among them. They take what they do not know as `loss_kwargs`,
`pixel_values` too, and leave it out: placeholders are embedded as words, and the policy is trained
on pages that it does not see.

Here a model with a vision tower goes to the functions of Qwen3-VL, which hand all inputs on to
`self.model`.

Unneeded once verl hands them on or refuses such models.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.patching import TRAINING, Patch, replace

NAMES = ("forward_with_torch_backend", "forward_with_triton_backend")


def _apply(module: ModuleType) -> None:
    for name in NAMES:
        replace(module, name, _seeing(name, getattr(module, name)))


def _seeing(name: str, of_text: Any) -> Any:
    def forward(self: Any, *args: Any, **inputs: Any) -> Any:
        """Return log-probs and entropy as upstream does, of rows with their images."""
        from verl.models.transformers import qwen3_vl

        blind = getattr(self.config, "vision_config", None) is None
        return (of_text if blind else getattr(qwen3_vl, name))(self, *args, **inputs)

    return forward


PATCH = Patch(
    name="fused_forward_with_images",
    package="verl",
    versions="==0.9.1",
    reference="verl/models/transformers/dense_common.py::forward_with_torch_backend",
    reason="with fused kernels, a model whose type verl does not list is trained without its "
    "images",
    target_module="verl.models.transformers.dense_common",
    apply=_apply,
    processes=TRAINING,
)
