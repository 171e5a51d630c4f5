"""Qwen3, text alone (arXiv 2505.09388); thoughts are turned off by `enable_thinking`."""

from __future__ import annotations

from typing import Any

from docagent_rl.models.family import Family


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


FAMILY = Family(
    name="qwen3",
    title="Qwen3",
    model_types=("qwen3",),
    released={
        "Qwen/Qwen3-8B": _config(4096, 12288, tied=False),
        "Qwen/Qwen3-4B": _config(2560, 9728, tied=True),
    },
)
