"""Every place where upstream code must be changed, one file each.

A patch lists the versions it was written for and is left out of all others; its test fails when upstream no
longer needs it. `docagent-rl doctor` shows which are active in which process.
"""

from __future__ import annotations

from docagent_rl.patches import (
    byte_patches,
    equal_length_position_ids,
    flash_attention_by_torch,
    fsdp2_unpinned_offload,
    fused_forward_of_one_model,
    fused_head_sharding,
    glm4v_flops,
    glm4v_visual_output,
    gloo_process_group,
    late_sklearn,
    log_probs_without_loop,
    lora_float32_adapters,
    lora_merged_weights,
    message_queue_memory,
    other_processors,
    qwen2_vl_attention_by_torch,
    qwen2_vl_batch_without_image,
    ray_loopback,
    rejected_last_row,
    resumed_reply_fields,
    root_logger_level,
    sft_resume_at_epoch_end,
    value_model_attention,
    vllm_cpu_experts,
    vllm_cpu_seeded_chunks,
    vllm_cpu_version,
    vllm_cpu_weight_update,
    weight_transfer_address,
    weight_transfer_memory,
    weight_transfer_timeout,
)
from docagent_rl.training.patching import Patch

ALL_PATCHES: tuple[Patch, ...] = (
    late_sklearn.PATCH,
    flash_attention_by_torch.PATCH,
    vllm_cpu_version.PATCH,
    gloo_process_group.PATCH,
    fsdp2_unpinned_offload.PATCH,
    vllm_cpu_weight_update.PATCH,
    vllm_cpu_seeded_chunks.PATCH,
    vllm_cpu_experts.PATCH,
    weight_transfer_timeout.PATCH,
    weight_transfer_address.PATCH,
    weight_transfer_memory.PATCH,
    log_probs_without_loop.PATCH,
    lora_float32_adapters.PATCH,
    lora_merged_weights.PATCH,
    qwen2_vl_attention_by_torch.PATCH,
    qwen2_vl_batch_without_image.PATCH,
    glm4v_visual_output.PATCH,
    glm4v_flops.PATCH,
    rejected_last_row.PATCH,
    value_model_attention.PATCH,
    equal_length_position_ids.PATCH,
    fused_forward_of_one_model.PATCH,
    fused_head_sharding.PATCH,
    ray_loopback.PATCH,
    byte_patches.PATCH,
    other_processors.PATCH,
    resumed_reply_fields.PATCH,
    root_logger_level.PATCH,
    sft_resume_at_epoch_end.PATCH,
    message_queue_memory.PATCH,
)
