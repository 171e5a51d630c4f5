"""Every place where upstream code must be changed, one file each.

A patch lists the versions it was written for and is left out of all others; its test fails when upstream no
longer needs it. `docagent-rl doctor` shows which are active in which process.
"""

from __future__ import annotations

from docagent_rl.patches import (
    equal_length_position_ids,
    fsdp2_unpinned_offload,
    gloo_process_group,
    qwen2_vl_batch_without_image,
    value_model_attention,
    vllm_cpu_version,
    vllm_cpu_weight_update,
    weight_transfer_address,
    weight_transfer_timeout,
)
from docagent_rl.patching import Patch

ALL_PATCHES: tuple[Patch, ...] = (
    vllm_cpu_version.PATCH,
    gloo_process_group.PATCH,
    fsdp2_unpinned_offload.PATCH,
    vllm_cpu_weight_update.PATCH,
    weight_transfer_timeout.PATCH,
    weight_transfer_address.PATCH,
    qwen2_vl_batch_without_image.PATCH,
    value_model_attention.PATCH,
    equal_length_position_ids.PATCH,
)
