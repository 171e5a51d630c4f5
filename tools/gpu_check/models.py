"""Make Qwen2.5-VL with random weights: small models with real head sizes, and a few real layers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn
from transformers import Qwen2_5_VLForConditionalGeneration

from docagent_rl.lab.tiny.shapes import build_processor, tiny_config
from docagent_rl.lab.tiny.tokenizer import build_tokenizer

if TYPE_CHECKING:
    from transformers import Qwen2_5_VLConfig

VOCABULARY = 4096
TEXT_HEAD = 128
VISION_HEAD = 80
"""Settings shared by all sizes of Qwen2.5-VL."""

SMALL = {
    "text": {
        "hidden_size": 2 * TEXT_HEAD,
        "intermediate_size": 384,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    },
    "vision": {"hidden_size": 2 * VISION_HEAD, "num_heads": 2, "out_hidden_size": 2 * TEXT_HEAD},
    "layers": 2,
    "vocabulary": VOCABULARY,
}
SEVEN = {
    "text": {
        "hidden_size": 3584,
        "intermediate_size": 18944,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "max_position_embeddings": 128_000,
    },
    "vision": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": 3584,
        "fullatt_block_indexes": [7, 15, 23, 31],
    },
    "layers": 28,
    "vocabulary": 152_064,
}
"""Sizes from Qwen2.5-VL-7B-Instruct's config.json."""


def configuration(
    sizes: dict, *, layers: int | None = None, tied: bool = False
) -> Qwen2_5_VLConfig:
    """Return a configuration of these sizes, with the special tokens of the tiny tokenizer."""
    config = tiny_config(build_tokenizer([]))
    text = config.text_config
    count = layers or sizes["layers"]
    changes = sizes["text"] | {
        "vocab_size": sizes["vocabulary"],
        "num_hidden_layers": count,
        "layer_types": ["full_attention"] * count,
        "tie_word_embeddings": tied,
        "rope_parameters": text.rope_parameters
        | {"rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    }
    for name, value in changes.items():
        setattr(text, name, value)
    for name, value in sizes["vision"].items():
        setattr(config.vision_config, name, value)
    config.tie_word_embeddings = tied
    return config


def write_checkpoint(
    folder: Path, config: Qwen2_5_VLConfig, *, device: str = "cpu", seed: int = 0
) -> Path:
    """Write a model that verl can load; its weights are bfloat16 if `device` is a GPU."""
    dtype = torch.bfloat16 if device == "cuda" else torch.float32
    torch.manual_seed(seed)
    with torch.device(device):
        model = Qwen2_5_VLForConditionalGeneration(config).to(dtype)
    for module in model.modules():
        # with this deviation, activations keep their size from layer to layer
        if isinstance(module, nn.Linear):
            nn.init.normal_(module.weight, std=1 / math.sqrt(module.in_features))
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.1)
    model.tie_weights()
    model.save_pretrained(folder)
    build_processor(build_tokenizer([])).save_pretrained(folder)
    return folder
