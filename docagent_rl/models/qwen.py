"""Qwen2.5-VL (arXiv 2502.13923), Qwen3-VL (arXiv 2511.21631), Qwen3.5, and Qwen3 of text alone (2505.09388).

Qwen2.5-VL writes boxes in pixels of the image as the encoder sees it, later ones in thousandths of each side.
Three of four layers of Qwen3.5 are gated delta nets. Thoughts of Qwen3 are turned off by `enable_thinking`.
"""

from __future__ import annotations

from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.documents.grid import ImageGrid
from docagent_rl.models.family import Family, Vision

_VISION = Vision(
    grid=ImageGrid(unit=32, min_pixels=256 * 256, max_pixels=4096 * 4096), patch=16, frame=Frame.NORM1000
)
_SMALL = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096}
"""The tower beside 2B and 4B, and of Qwen3.5-4B; larger models have that of the defaults."""
_DEEP = _SMALL | {"deepstack_visual_indexes": [5, 11, 17]}


def _text(hidden: int, inner: int, layers: int, heads: int, kv: int = 8, **more: Any) -> dict[str, Any]:
    return {
        "vocab_size": 151936,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
        **more,
    }


def _seeing(kind: str, text: dict[str, Any], vision: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    vision = {**vision, "out_hidden_size": text["hidden_size"]}
    return {"model_type": kind, "text_config": text, "vision_config": vision, "tie_word_embeddings": tied}


def _qwen2_5_vl(text: dict[str, Any], *, tied: bool) -> dict[str, Any]:
    text = {"max_window_layers": text["num_hidden_layers"], **text}
    return _seeing("qwen2_5_vl", text, {"hidden_size": 1280}, tied=tied)


def _qwen3_vl(*sizes: int, vision: dict[str, Any], tied: bool) -> dict[str, Any]:
    return _seeing("qwen3_vl", _text(*sizes, head_dim=128), vision, tied=tied)


def _qwen3(hidden: int, inner: int, *, tied: bool) -> dict[str, Any]:
    text = _text(hidden, inner, 36, 32, head_dim=128, max_window_layers=36)
    return {"model_type": "qwen3", **text, "tie_word_embeddings": tied}


QWEN2_5_VL = Family(
    name="qwen2_5_vl",
    title="Qwen2.5-VL",
    model_types=("qwen2_5_vl",),
    vision=Vision(
        grid=ImageGrid(unit=28, min_pixels=56 * 56, max_pixels=12_845_056), patch=14, frame=Frame.ENCODER
    ),
    released={
        "Qwen/Qwen2.5-VL-7B-Instruct": _qwen2_5_vl(
            _text(3584, 18944, 28, 28, 4) | {"vocab_size": 152064}, tied=False
        ),
        "Qwen/Qwen2.5-VL-3B-Instruct": _qwen2_5_vl(_text(2048, 11008, 36, 16, 2), tied=True),
    },
)

QWEN3_VL = Family(
    name="qwen3_vl",
    title="Qwen3-VL",
    model_types=("qwen3_vl",),
    vision=_VISION,
    released={
        "Qwen/Qwen3-VL-2B-Instruct": _qwen3_vl(2048, 6144, 28, 16, vision=_DEEP, tied=True),
        "Qwen/Qwen3-VL-4B-Instruct": _qwen3_vl(2560, 9728, 36, 32, vision=_DEEP, tied=True),
        "Qwen/Qwen3-VL-8B-Instruct": _qwen3_vl(4096, 12288, 36, 32, vision={}, tied=False),
        "Qwen/Qwen3-VL-32B-Instruct": _qwen3_vl(5120, 25600, 64, 64, vision={}, tied=False),
    },
)

_EXPERTS = {
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "norm_topk_prob": True,
}
QWEN3_VL_MOE = Family(
    name="qwen3_vl_moe",
    title="Qwen3-VL-MoE",
    model_types=("qwen3_vl_moe",),
    vision=_VISION,
    released={
        "Qwen/Qwen3-VL-30B-A3B-Instruct": _seeing(
            "qwen3_vl_moe", _text(2048, 6144, 48, 32, 4, head_dim=128, **_EXPERTS), {}, tied=False
        )
    },
)

_QWEN3_5_4B = {
    "model_type": "qwen3_5",
    "text_config": {"hidden_size": 2560, "intermediate_size": 9216, "tie_word_embeddings": True},
    "vision_config": _SMALL | {"out_hidden_size": 2560},
    "tie_word_embeddings": True,
}
_QWEN3_5_9B = {
    "model_type": "qwen3_5",
    "vision_config": {"out_hidden_size": 4096},
    "tie_word_embeddings": False,
}
"""Its language model has the defaults of transformers."""
QWEN3_5 = Family(
    name="qwen3_5",
    title="Qwen3.5",
    model_types=("qwen3_5",),
    vision=_VISION,
    released={"Qwen/Qwen3.5-4B": _QWEN3_5_4B, "Qwen/Qwen3.5-9B": _QWEN3_5_9B},
)
QWEN3_5_MOE = Family(name="qwen3_5_moe", title="Qwen3.5-MoE", model_types=("qwen3_5_moe",), vision=_VISION)

QWEN3 = Family(
    name="qwen3",
    title="Qwen3",
    model_types=("qwen3",),
    released={
        "Qwen/Qwen3-8B": _qwen3(4096, 12288, tied=False),
        "Qwen/Qwen3-4B": _qwen3(2560, 9728, tied=True),
    },
)
