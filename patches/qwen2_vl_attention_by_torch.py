"""verl's attention for Qwen2-VL, Qwen2.5-VL and GLM-4V without flash-attn.

Upstream: verl 0.9.1, `verl/models/transformers/qwen2_vl.py`. With `use_remove_padding` (or Ulysses)
every decoder layer runs `qwen2_vl_attn_forward`, which uses `flash_attn_varlen_func`,
`_flash_supports_window_size`, `_flash_supports_deterministic` and `_flash_use_top_left_mask`. The
module only defines these names if flash-attn is installed. Without it the first forward pass fails
with a NameError, whatever `attn_implementation` is. `verl/models/transformers/glm4v.py` is a copy;
a worker only imports the module of its model.

Here each module gets these names from `docagent_rl/training/attention.py` when it is imported. A
pack of a single row uses transformers' `flash_attention_2` whatever the model's
`attn_implementation` is, as packs of several rows do. On a CPU, float32 inputs stay in float32, as
no kernel requires bf16 there (the output projection is in float32 as well).

No longer needed once verl imports these functions from transformers.
"""

from __future__ import annotations

import functools
from types import ModuleType

import torch

from docagent_rl.training.attention import flash_attn_func, flash_attn_varlen_func
from docagent_rl.training.hardware import without_flash_attn
from docagent_rl.training.patching import TRAINING, Patch, replace


def supply(module: ModuleType) -> None:
    """Define in a module of verl what it would have imported from flash-attn."""
    if module.is_npu_available:
        return  # verl has separate functions for it
    cast_for_kernels = module.fa_peft_integration_check

    def fa_peft_integration_check(
        q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, target_dtype: torch.dtype | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Cast float32 to `target_dtype` if the kernel requires it."""
        return (q, k, v) if q.device.type == "cpu" else cast_for_kernels(q, k, v, target_dtype)

    vars(module).update(
        flash_attn_func=flash_attn_func,
        flash_attn_varlen_func=flash_attn_varlen_func,
        _flash_supports_window_size=True,
        _flash_supports_deterministic=True,
        # the last query is aligned with the last key, as in flash-attn since version 2.1
        _flash_use_top_left_mask=False,
    )
    row = functools.partial(
        module._flash_attention_forward, attn_implementation="flash_attention_2"
    )
    replace(module, "_flash_attention_forward", row)
    replace(module, "fa_peft_integration_check", fa_peft_integration_check)


PATCH = Patch(
    name="qwen2_vl_attention_by_torch",
    package="verl",
    versions="==0.9.1",
    reference="verl/models/transformers/qwen2_vl.py, import of flash_attn",
    reason="packed rows of Qwen2.5-VL and GLM need names that only exist if flash-attn is "
    "installed",
    target_module="verl.models.transformers.qwen2_vl",
    more_modules=("verl.models.transformers.glm4v",),
    apply=supply,
    processes=TRAINING,
    needed=without_flash_attn,
)
