"""Qwen3-VL with mixtures of experts (arXiv 2511.21631): sees as the dense models do."""

from __future__ import annotations

from docagent_rl.models.family import Family
from docagent_rl.models.qwen3_vl import VISION

_30B = {
    "model_type": "qwen3_vl_moe",
    "text_config": {
        "vocab_size": 151936,
        "hidden_size": 2048,
        "intermediate_size": 6144,
        "moe_intermediate_size": 768,
        "num_hidden_layers": 48,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "norm_topk_prob": True,
    },
    "vision_config": {"out_hidden_size": 2048},
    "tie_word_embeddings": False,
}

FAMILY = Family(
    name="qwen3_vl_moe",
    title="Qwen3-VL-MoE",
    model_types=("qwen3_vl_moe",),
    vision=VISION,
    released={"Qwen/Qwen3-VL-30B-A3B-Instruct": _30B},
)
