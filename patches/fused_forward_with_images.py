"""With fused kernels, a model for which verl has no fused forward pass still sees its images.

Upstream: verl 0.9.1, `verl/models/transformers/dense_common.py`, `forward_with_torch_backend` and
`forward_with_triton_backend`. `patch_forward_with_backends` uses them for every model type that it
does not list, including InternVL. They collect unknown arguments in `loss_kwargs`, including
`pixel_values`, and ignore them: placeholders are embedded like words, and the policy is trained on
pages that it does not see.

Here a model with a vision tower uses the functions of Qwen3-VL, which pass all inputs on to
`self.model`.

No longer needed once verl passes these inputs on, or refuses such models.
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
        """Return log-probs and entropy as upstream does, for rows with images."""
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
