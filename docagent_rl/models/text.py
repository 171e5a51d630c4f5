"""Text models: Qwen3 (whose thinking `enable_thinking` turns off), Llama and Gemma 3."""

from typing import Any

from docagent_rl.models.family import Family
from docagent_rl.models.layers import (
    FLOAT32,
    Attention,
    LayerBytes,
    float_norm,
    gated_mlp,
    mlp_working,
    plain_layer,
    qwen3_layer,
)


def _config(hidden: int, inner: int, *, tied: bool) -> dict[str, Any]:
    return {
        "model_type": "qwen3",
        "vocab_size": 151936,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": 36,
        "max_window_layers": 36,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "tie_word_embeddings": tied,
    }


def _gemma3_layer(config: Any, number: int) -> LayerBytes:
    """Return a layer of Gemma 3, with norms before and after both halves, whatever its window."""
    attention = Attention.of(config)
    hidden = config.hidden_size
    inner = config.intermediate_size
    norms = 4 * float_norm(hidden)
    norms += float_norm(attention.query, attention.heads) + float_norm(
        attention.keys, attention.key_heads
    )
    working = max(mlp_working(hidden, inner) - float_norm(hidden), 5 * FLOAT32 * hidden)
    return LayerBytes(norms + attention.kept + gated_mlp(hidden, inner), working)


# arXiv 2505.09388
QWEN3 = Family(
    name="qwen3",
    title="Qwen3",
    model_types=("qwen3",),
    layer=qwen3_layer,
    released={
        "Qwen/Qwen3-8B": _config(4096, 12288, tied=False),
        "Qwen/Qwen3-4B": _config(2560, 9728, tied=True),
    },
)

# versions 2 and 3, arXiv 2407.21783
LLAMA = Family(name="llama", title="Llama", model_types=("llama",), layer=plain_layer)
# arXiv 2503.19786: the 1B checkpoint, or the language model of a larger one
GEMMA3 = Family(name="gemma3", title="Gemma 3", model_types=("gemma3_text",), layer=_gemma3_layer)
