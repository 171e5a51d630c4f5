"""What the models of the recipes are made of, without their weights and without a network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import nn
    from transformers import PretrainedConfig


def _text(hidden: int, inner: int, layers: int, heads: int, kv: int, vocabulary: int = 151936) -> dict:
    return {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "max_window_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": kv,
    }


def _qwen2_5_vl(text: dict, *, tied: bool) -> dict:
    vision = {"hidden_size": 1280, "out_hidden_size": text["hidden_size"]}
    sections = {"text_config": text, "vision_config": vision}
    return {"model_type": "qwen2_5_vl", **sections, "tie_word_embeddings": tied}


def _qwen3(text: dict, *, tied: bool) -> dict:
    return {"model_type": "qwen3", **text, "head_dim": 128, "tie_word_embeddings": tied}


KNOWN: Mapping[str, dict[str, Any]] = {
    "Qwen/Qwen2.5-VL-7B-Instruct": _qwen2_5_vl(_text(3584, 18944, 28, 28, 4, 152064), tied=False),
    "Qwen/Qwen2.5-VL-3B-Instruct": _qwen2_5_vl(_text(2048, 11008, 36, 16, 2), tied=True),
    "Qwen/Qwen3-8B": _qwen3(_text(4096, 12288, 36, 32, 8), tied=False),
    "Qwen/Qwen3-4B": _qwen3(_text(2560, 9728, 36, 32, 8), tied=True),
}
"""By name on the hub, what in their `config.json` differs from the defaults of transformers."""


def model_config(path: str) -> PretrainedConfig | None:
    """Return the configuration of a model in a folder, or in `KNOWN`; None for other names of the hub."""
    from transformers import AutoConfig

    folder = Path(path).expanduser()
    if (folder / "config.json").is_file():
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    return AutoConfig.for_model(**KNOWN[path]) if path in KNOWN else None


@cache
def known_model(path: str) -> nn.Module | None:
    """Build a model without memory behind its parameters, of a folder or a name in `KNOWN`; else None."""
    config = model_config(path)
    return None if config is None else on_meta(config)


def on_meta(config: PretrainedConfig) -> nn.Module:
    """Build a model on the meta device, of the class that verl's engine would load."""
    import torch
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    seeing = type(config) in AutoModelForImageTextToText._model_mapping
    kind = AutoModelForImageTextToText if seeing else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(config)
    model.tie_weights()
    return model
