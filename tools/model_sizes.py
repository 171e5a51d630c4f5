"""`python -m tools.model_sizes [--check]`: writes docagent_rl/checks/model_sizes.yaml.

The file has the sizes of all released models of the families, and of models that recipes have
served. They are counted on models that transformers builds without memory for their parameters.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import yaml
from omegaconf import OmegaConf

from docagent_rl.checks.model_sizes import PER_RANK, SIZES, as_values, sizes_of
from docagent_rl.models import families
from docagent_rl.training.settings.models import LANGUAGE, known_model, on_meta, read_adapters

HEAD = """\
# Sizes of models, for budgets and plans that load neither torch nor transformers.
# adapters_per_rank: LoRA parameters of rank 1, for +lora=language.
# states: numbers of equal layers, with the bytes that each keeps and works with per token.
# Written by `python -m tools.model_sizes`.
"""
_QWEN2_5: Mapping[str, tuple[int, int, int, int, int]] = {
    "Qwen/Qwen2.5-7B-Instruct": (3584, 18944, 28, 28, 4),
    "Qwen/Qwen2.5-14B-Instruct": (5120, 13824, 48, 40, 8),
    "Qwen/Qwen2.5-32B-Instruct": (5120, 27648, 64, 40, 8),
    "Qwen/Qwen2.5-72B-Instruct": (8192, 29568, 80, 64, 8),
}
"""Judges and extractors that are not trained: widths, inner widths, layers, heads, key heads
(arXiv 2412.15115).
"""


_QWEN2_VL = "Qwen/Qwen2-VL-2B-Instruct"
"""The model that several retrievers are made of; widths are those of its config.json."""


def sizes_text() -> str:
    """Return the text of the file."""
    released = sorted({name for family in families() for name in family.released})
    found = {name: as_values(sizes_of(_built(name))) for name in (*released, *_QWEN2_5, _QWEN2_VL)}
    for name in released:
        found[name][PER_RANK] = _adapters_per_rank(name)
    return HEAD + yaml.safe_dump(found, sort_keys=False, default_flow_style=None, width=110)


def _adapters_per_rank(name: str) -> int:
    """Count the LoRA parameters of rank 1 that peft makes for the language model's layers."""
    targets, excluded = LANGUAGE
    section = {"path": name, "lora_rank": 1, "target_modules": targets, "exclude_modules": excluded}
    adapters = read_adapters(OmegaConf.create(section))
    return 0 if adapters is None else adapters.parameters


def _built(name: str) -> Any:
    if name == _QWEN2_VL:
        return _qwen2_vl()
    if name not in _QWEN2_5:
        return known_model(name)
    from transformers import Qwen2Config

    hidden, inner, layers, heads, key_heads = _QWEN2_5[name]
    return on_meta(
        Qwen2Config(
            vocab_size=152064,
            hidden_size=hidden,
            intermediate_size=inner,
            num_hidden_layers=layers,
            max_window_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=key_heads,
            tie_word_embeddings=False,
        )
    )


def _qwen2_vl() -> Any:
    from transformers import Qwen2VLConfig

    text = {
        "vocab_size": 151936,
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "max_window_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    }
    vision = {"depth": 32, "embed_dim": 1280, "hidden_size": 1536, "num_heads": 16}
    return on_meta(Qwen2VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True))


def main() -> None:
    """Write the file; with `--check`, fail if it is not what would be written."""
    text = sizes_text()
    if "--check" in sys.argv[1:]:
        if SIZES.read_text(encoding="utf-8") != text:
            sys.exit(f"{SIZES} is stale: run python -m tools.model_sizes")
        return
    SIZES.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
