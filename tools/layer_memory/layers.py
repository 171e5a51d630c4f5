"""Build layers of all families at released and other widths, and count the bytes that they keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import torch
import transformers
import verl  # noqa: F401  (loads the patch that gives transformers its attention)
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from docagent_rl.models import Family, families
from docagent_rl.models.layers import LayerBytes
from docagent_rl.training.settings.models import model_config
from tools.layer_memory.meter import Memory, per_token

HALF = torch.bfloat16
MANY = 65_536
CHUNKED = 2_048
"""The number of tokens with which a layer is counted. It is large, so that gradients of weights are
negligible, but smaller (`CHUNKED`) if the layer loops over tokens.
"""
# widths of published models whose sizes are not listed in docagent_rl/models
OTHERS: dict[str, Callable[[], Any]] = {
    "llama": lambda: transformers.LlamaConfig(
        hidden_size=4096, intermediate_size=14336, num_attention_heads=32, num_key_value_heads=8
    ),
    "gemma3": lambda: transformers.Gemma3TextConfig(
        hidden_size=1152,
        intermediate_size=6912,
        num_attention_heads=4,
        num_key_value_heads=1,
        head_dim=256,
    ),
    "gemma4": lambda: transformers.Gemma4Config(
        text_config={
            "hidden_size": 1536,
            "intermediate_size": 6144,
            "num_key_value_heads": 1,
            "num_kv_shared_layers": 4,
            "num_hidden_layers": 10,
            "use_double_wide_mlp": True,
        },
        vision_config={"num_hidden_layers": 1},
    ),
    "glm4v": transformers.Glm4vConfig,
    "internvl": lambda: transformers.InternVLConfig(
        text_config={
            "model_type": "qwen3",
            "hidden_size": 4096,
            "intermediate_size": 12288,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
        },
    ),
    "qwen3_5_moe": transformers.Qwen3_5MoeConfig,
}


@dataclass(frozen=True)
class Counted:
    """A layer's bytes per token or patch, by the formula and by the hooks."""

    model: str
    what: str
    formula: LayerBytes
    memory: Memory


def configurations() -> Iterator[tuple[Family, str, Any]]:
    """Yield each family with names and configurations of its models."""
    for family in families():
        for name in family.released:
            yield family, name, model_config(name)
        if family.name in OTHERS:
            yield family, family.name, OTHERS[family.name]()


def count(family: Family, name: str, config: Any) -> Iterator[Counted]:
    """Count one layer of each kind in a model, and one of its vision tower."""
    config = shortened(config)
    text = config.get_text_config()
    with FakeTensorMode(), patch.object(torch.cuda, "get_device_capability", return_value=(9, 0)):
        model: Any = build(config)
        layers = getattr(model.model, "language_model", model.model).layers
        for kind, number in kinds(text):
            tokens = CHUNKED if "linear" in kind else MANY
            memory = per_token(layers[number], text_call(layers[number], text, number), tokens)
            yield Counted(name, kind, family.layer(text, number), memory)
        if family.vision is not None:
            tower = config.vision_config
            block, call_of = tower_call(model.model, tower)
            yield Counted(
                name, "tower", family.vision.block(tower), per_token(block, call_of, MANY)
            )


def shortened(config: Any) -> Any:
    """Reduce a configuration to the fewest layers that include every kind, and one of the tower."""
    text = config.get_text_config()
    vision = getattr(config, "vision_config", None)
    if not getattr(text, "num_kv_shared_layers", 0):
        kinds_of_layers = getattr(text, "layer_types", None)
        last = max(map(kinds_of_layers.index, set(kinds_of_layers))) if kinds_of_layers else 0
        text.num_hidden_layers = last + 1
        if kinds_of_layers:
            text.layer_types = kinds_of_layers[: last + 1]
    if config.model_type == "qwen2_5_vl" and "mrope_section" not in text.rope_parameters:
        text.rope_parameters = {
            "rope_type": "default",
            "rope_theta": 1e6,
            "mrope_section": [16, 24, 24],
        }
    if vision is not None:
        setattr(vision, "depth" if hasattr(vision, "depth") else "num_hidden_layers", 1)
        if getattr(vision, "deepstack_visual_indexes", None):
            vision.deepstack_visual_indexes = [0]
    return config


def build(config: Any) -> nn.Module:
    """Build a model in bfloat16 with the attention used on GPUs."""
    seeing = type(config) in transformers.AutoModelForImageTextToText._model_mapping
    kind = transformers.AutoModelForImageTextToText if seeing else transformers.AutoModelForCausalLM
    config._attn_implementation = "flash_attention_2"
    return kind.from_config(config, dtype=HALF).train()


def kinds(text: Any) -> list[tuple[str, int]]:
    """Return the kinds of layers in a language model, with the index of the first of each."""
    named = getattr(text, "layer_types", None) or ["full_attention"]
    shared = getattr(text, "num_kv_shared_layers", 0) or 0
    found: dict[str, int] = {}
    for number, kind in enumerate(named[: text.num_hidden_layers]):
        own = number < text.num_hidden_layers - shared
        found.setdefault(kind if own else f"{kind}, shared keys", number)
    return list(found.items())


def text_call(layer: nn.Module, text: Any, number: int) -> Callable[[int], Callable[[], Any]]:
    """Return a function that prepares a call of a layer for a number of tokens.

    The tokens are a pack of two rows.
    """

    def call_of(tokens: int) -> Callable[[], Any]:
        rows = torch.tensor([0, tokens // 2, tokens], dtype=torch.int32)
        given = {
            "position_embeddings": _angles(text, number, tokens),
            "attention_mask": None,
            "cu_seq_lens_q": rows,
            "cu_seq_lens_k": rows,
            "max_length_q": tokens // 2,
            "max_length_k": tokens // 2,
        }
        if text.model_type == "gemma4_text":
            given["per_layer_input"] = _states(1, tokens, text.hidden_size_per_layer_input)
            widths = {"full_attention": text.global_head_dim, "sliding_attention": text.head_dim}
            given["shared_kv_states"] = {
                kind: tuple(_states(1, text.num_key_value_heads, tokens, width) for _ in range(2))
                for kind, width in widths.items()
            }
        states = _states(1, tokens, text.hidden_size)
        return lambda: layer(states, **given)

    return call_of


def tower_call(model: Any, vision: Any) -> tuple[nn.Module, Callable[[int], Callable[[], Any]]]:
    """Return a layer of the tower, and a function that prepares a call of it for many patches."""
    width = vision.hidden_size
    if hasattr(model, "visual"):
        block = model.visual.blocks[0]

        def packed(patches: int) -> Callable[[], Any]:
            states = _states(patches, width)
            rows = torch.tensor([0, patches // 2, patches], dtype=torch.int32)
            angles = tuple(torch.randn(patches, width // vision.num_heads) for _ in range(2))
            return lambda: block(states, cu_seqlens=rows, position_embeddings=angles)

        return block, packed
    encoder = model.vision_tower.encoder
    block = encoder.layers[0] if hasattr(encoder, "layers") else encoder.layer[0]

    def whole(patches: int) -> Callable[[], Any]:
        states = _states(patches // 1024, 1024, width)
        if vision.model_type != "gemma4_vision":
            return lambda: block(states)
        angles = tuple(
            torch.randn(*states.shape[:2], vision.head_dim, dtype=HALF) for _ in range(2)
        )
        places = torch.zeros(*states.shape[:2], 2, dtype=torch.long)
        return lambda: block(states, position_embeddings=angles, position_ids=places)

    return block, whole


def _angles(text: Any, number: int, tokens: int) -> tuple[Tensor, Tensor]:
    head = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    kind = (getattr(text, "layer_types", None) or ["full_attention"])[number]
    if text.model_type == "gemma4_text" and kind == "full_attention":
        head = text.global_head_dim or head
    partial = (text.rope_parameters or {}).get("partial_rotary_factor", 1.0)
    axes = (3,) if text.model_type == "qwen2_5_vl_text" else ()
    shape = (*axes, 1, tokens, int(head * partial))
    return torch.randn(shape, dtype=HALF), torch.randn(shape, dtype=HALF)


def _states(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=HALF, requires_grad=True)
