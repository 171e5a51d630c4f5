"""What the models of the recipes are made of, without their weights and without a network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig


def _qwen2_5_vl(
    hidden: int, inner: int, layers: int, heads: int, kv: int, vocabulary: int, *, tied: bool
) -> Any:
    from transformers import Qwen2_5_VLConfig

    text = {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "max_window_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
    }
    vision = {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "out_hidden_size": hidden,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    }
    return Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=tied)


def _qwen3(hidden: int, inner: int, layers: int, heads: int, kv: int, *, tied: bool) -> Any:
    from transformers import Qwen3Config

    return Qwen3Config(
        vocab_size=151936,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=kv,
        head_dim=128,
        tie_word_embeddings=tied,
    )


KNOWN: Mapping[str, Callable[[], Any]] = {
    "Qwen/Qwen2.5-VL-7B-Instruct": partial(_qwen2_5_vl, 3584, 18944, 28, 28, 4, 152064, tied=False),
    "Qwen/Qwen2.5-VL-3B-Instruct": partial(_qwen2_5_vl, 2048, 11008, 36, 16, 2, 151936, tied=True),
    "Qwen/Qwen3-8B": partial(_qwen3, 4096, 12288, 36, 32, 8, tied=False),
    "Qwen/Qwen3-4B": partial(_qwen3, 2560, 9728, 36, 32, 8, tied=True),
}
"""By name on the hub, as their `config.json` says."""


def model_config(path: str) -> PretrainedConfig | None:
    """The configuration of a model: of a folder, else one of `KNOWN`; None for other names of the hub."""
    folder = Path(path).expanduser()
    if (folder / "config.json").is_file():
        from transformers import AutoConfig

        return AutoConfig.from_pretrained(folder, local_files_only=True)
    return KNOWN[path]() if path in KNOWN else None


@cache
def known_model(path: str) -> nn.Module | None:
    """A model without memory behind its parameters, by folder or name; None where only the hub knows it."""
    config = model_config(path)
    return None if config is None else on_meta(config)


def on_meta(config: PretrainedConfig) -> nn.Module:
    """A model of a configuration on the meta device, of the class that verl's engine would load."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seeing = type(config) in AutoModelForImageTextToText._model_mapping
    kind = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    model.tie_weights()
    return model
