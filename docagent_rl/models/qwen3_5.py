"""Qwen3.5, dense and with experts: sees as Qwen3-VL does; three of four layers are gated delta nets."""

from docagent_rl.models.family import Family
from docagent_rl.models.qwen3_vl import SMALL, VISION

_4B = {
    "model_type": "qwen3_5",
    "text_config": {"hidden_size": 2560, "intermediate_size": 9216, "tie_word_embeddings": True},
    "vision_config": SMALL | {"out_hidden_size": 2560},
    "tie_word_embeddings": True,
}
_9B = {"model_type": "qwen3_5", "vision_config": {"out_hidden_size": 4096}, "tie_word_embeddings": False}
"""Its language model has the defaults of transformers."""

DENSE = Family(
    name="qwen3_5",
    title="Qwen3.5",
    model_types=("qwen3_5",),
    vision=VISION,
    released={"Qwen/Qwen3.5-4B": _4B, "Qwen/Qwen3.5-9B": _9B},
)
MOE = Family(name="qwen3_5_moe", title="Qwen3.5-MoE", model_types=("qwen3_5_moe",), vision=VISION)
