"""Qwen2.5-VL (arXiv 2502.13923): boxes in pixels of the image as the encoder sees it."""

from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.models.family import Family, Vision


def _config(hidden: int, inner: int, layers: int, heads: int, kv: int, **more: Any) -> dict[str, Any]:
    text = {
        "vocab_size": 151936,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "max_window_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
    }
    vision = {"hidden_size": 1280, "out_hidden_size": hidden}
    return {"model_type": "qwen2_5_vl", "text_config": text | more, "vision_config": vision}


FAMILY = Family(
    name="qwen2_5_vl",
    title="Qwen2.5-VL",
    model_types=("qwen2_5_vl",),
    vision=Vision(
        grid=ImageGrid(unit=28, min_pixels=56 * 56, max_pixels=12_845_056),
        patch=14,
        frame=Frame.ENCODER,
    ),
    released={
        "Qwen/Qwen2.5-VL-7B-Instruct": {
            **_config(3584, 18944, 28, 28, 4, vocab_size=152064),
            "tie_word_embeddings": False,
        },
        "Qwen/Qwen2.5-VL-3B-Instruct": {**_config(2048, 11008, 36, 16, 2), "tie_word_embeddings": True},
    },
)
