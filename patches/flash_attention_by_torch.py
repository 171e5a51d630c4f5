"""transformers' `flash_attention_2` without flash-attn, with torch's kernels.

Upstream: transformers 5.9.0, `modeling_flash_attention_utils.py`. `_lazy_imports` imports the
functions of `flash_attention_2` from flash-attn, or from the package `kernels`, which downloads
them; without either, a model that requests `flash_attention_2` (which is verl 0.9.1's default,
`workers/config/model.py`) cannot be built: "FlashAttention2 has been toggled on, but it cannot be
used". flash-attn has no wheel on the package index.

Here `flash_attention_2` is computed by `docagent_rl/training/attention.py`: decoder layers, packed
rows and vision towers use the same code paths as with flash-attn. The patch only applies if
flash-attn is not installed, or on the CPU platform.

No longer needed once transformers itself supports `torch.nn.attention.varlen`.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from docagent_rl.training.attention import flash_attn_func, flash_attn_varlen_func
from docagent_rl.training.hardware import without_flash_attn
from docagent_rl.training.patching import TRAINING, Patch, replace

FLASH_ATTENTION = "flash_attention_2"


def _always() -> bool:
    return True


def _apply(module: ModuleType) -> None:
    if module.is_torch_npu_available() or module.is_torch_xpu_available():
        return  # transformers has separate functions for these
    original = module._lazy_imports

    def _lazy_imports(implementation: str | None, *args: Any, **options: Any) -> tuple:
        """Return the functions of a flash attention implementation."""
        if implementation != FLASH_ATTENTION:
            return original(implementation, *args, **options)
        # without a function for key caches, as upstream without flash-attn 2
        return flash_attn_func, flash_attn_varlen_func, None, module._pad_input, module._unpad_input

    replace(module, "_lazy_imports", _lazy_imports)
    # shared with transformers.modeling_utils, which looks up what a model may request, and on which
    # devices
    facts = module.FLASH_ATTENTION_COMPATIBILITY_MATRIX[2]
    facts["general_availability_check"] = _always
    facts["supported_devices"] += ((_always, "cpu"),)


PATCH = Patch(
    name="flash_attention_by_torch",
    package="transformers",
    versions="==5.9.0",
    reference="transformers/modeling_flash_attention_utils.py::_lazy_imports",
    reason="flash_attention_2, verl's default, needs flash-attn, which has no wheel on the package "
    "index",
    target_module="transformers.modeling_flash_attention_utils",
    apply=_apply,
    processes=TRAINING,
    needed=without_flash_attn,
)
