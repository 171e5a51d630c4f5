"""Find the attention implementation that models use in a run."""

from __future__ import annotations

from typing import Any

FLASH = "flash_attention_2"


def packed_attention() -> tuple[Any, str]:
    """Return the function that verl's forward of Qwen2.5-VL calls on packed rows, and its name.

    It is flash-attn's if that is installed, otherwise the plugin's replacement, or None if there is
    neither.
    """
    import verl  # noqa: F401  (loads the plugin)
    from verl.models.transformers import qwen2_vl

    from docagent_rl.training.hardware import TORCH_VARLEN, without_flash_attn

    way = TORCH_VARLEN if without_flash_attn() else "flash-attn"
    return getattr(qwen2_vl, "flash_attn_varlen_func", None), way
