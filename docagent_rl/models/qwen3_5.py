"""Qwen3.5, dense and with experts: it sees images as Qwen3-VL does, and three out of four layers
are gated delta nets.
"""

from typing import Any

from docagent_rl.models.family import Family
from docagent_rl.models.layers import (
    BFLOAT16,
    FLOAT32,
    Attention,
    LayerBytes,
    delta_net,
    delta_working,
    experts,
    float_norm,
    gated_mlp,
    mlp_working,
)
from docagent_rl.models.qwen3_vl import SMALL, VISION

_HEADS = {"num_attention_heads": 16, "num_key_value_heads": 4, "head_dim": 256}
_4B = {
    "model_type": "qwen3_5",
    "text_config": _HEADS
    | {"hidden_size": 2560, "intermediate_size": 9216, "tie_word_embeddings": True},
    "vision_config": SMALL | {"out_hidden_size": 2560},
    "tie_word_embeddings": True,
}
_9B = {
    "model_type": "qwen3_5",
    "text_config": _HEADS,
    "vision_config": {"out_hidden_size": 4096},
    "tie_word_embeddings": False,
}
"""The language model has the defaults of transformers; its heads are among them."""


def _mixer(config: Any, number: int) -> int:
    """Return what a delta net keeps, or gated attention: the gate, and two more copies of the
    output.
    """
    if config.layer_types[number] == "linear_attention":
        return delta_net(
            config.hidden_size,
            config.linear_num_key_heads,
            config.linear_num_value_heads,
            config.linear_key_head_dim,
            config.linear_value_head_dim,
        )
    attention = Attention.of(config)
    rotated = config.rope_parameters.get("partial_rotary_factor", 0.25)
    angles = 2 * BFLOAT16 * (attention.head - int(attention.head * rotated))
    norms = float_norm(attention.query, attention.heads) + float_norm(
        attention.keys, attention.key_heads
    )
    return attention.kept - angles + 3 * BFLOAT16 * attention.query + norms


def _layer(config: Any, number: int) -> LayerBytes:
    hidden = config.hidden_size
    inner = config.intermediate_size
    mlp = gated_mlp(hidden, inner)
    kept = 2 * float_norm(hidden) + _mixer(config, number) + mlp
    working = mlp_working(hidden, inner)
    if config.layer_types[number] == "linear_attention":
        freed = mlp + float_norm(hidden)  # the backward pass has freed these by then
        working = max(working, _delta_working(config) - freed)
    return LayerBytes(kept, working)


def _delta_working(config: Any) -> int:
    heads = config.linear_num_value_heads
    key = config.linear_key_head_dim
    return delta_working(config.hidden_size, heads, key, config.linear_value_head_dim)


def _layer_of_experts(config: Any, number: int) -> LayerBytes:
    """Return a layer with experts, and a shared expert with a gated output for all tokens."""
    hidden = config.hidden_size
    shared = config.shared_expert_intermediate_size
    mlp = experts(
        hidden, config.moe_intermediate_size, config.num_experts, config.num_experts_per_tok
    )
    shared_kept = gated_mlp(hidden, shared) + FLOAT32
    kept = 2 * float_norm(hidden) + _mixer(config, number) + mlp.kept + shared_kept
    return LayerBytes(kept, mlp.working)


DENSE = Family(
    name="qwen3_5",
    title="Qwen3.5",
    model_types=("qwen3_5",),
    layer=_layer,
    vision=VISION,
    released={"Qwen/Qwen3.5-4B": _4B, "Qwen/Qwen3.5-9B": _9B},
)
MOE = Family(
    name="qwen3_5_moe",
    title="Qwen3.5-MoE",
    model_types=("qwen3_5_moe",),
    layer=_layer_of_experts,
    vision=VISION,
)
