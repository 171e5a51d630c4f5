"""Configurations of tiny models of Qwen3's families, their tokenizer and their processor."""

from typing import Any

from docagent_rl.lab.tiny.indexes import qwen2_vl_processor
from docagent_rl.lab.tiny.tokenizer import build_tokenizer

VISION_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}


VISION = {
    "depth": 2,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_heads": 2,
    "patch_size": 16,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 64,
}
TEXT = {
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "hidden_size": 64,
    "intermediate_size": 128,
}


def answering_tokenizer() -> Any:
    """Return the tokenizer of the tiny models, in which yes and no are tokens."""
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(["yes", "no"])
    return tokenizer


def qwen3_vl(tokenizer: Any) -> Any:
    """Return the configuration of a tiny Qwen3-VL."""
    from transformers import Qwen3VLConfig

    vision = {**VISION, "deepstack_visual_indexes": [0]}
    text = _text(tokenizer)
    return Qwen3VLConfig(
        text_config=text, vision_config=vision, tie_word_embeddings=True, **_ids(tokenizer)
    )


def qwen3_5(tokenizer: Any) -> Any:
    """Return the configuration of a tiny Qwen3.5, with one layer of linear attention and one of
    full attention.
    """
    from transformers import Qwen3_5Config

    linear = {f"linear_{part}": 2 for part in ("num_key_heads", "num_value_heads")}
    linear |= {f"linear_{part}": 16 for part in ("key_head_dim", "value_head_dim")}
    kinds = ["linear_attention", "full_attention"]
    text = {**_text(tokenizer), **linear, "layer_types": kinds}
    return Qwen3_5Config(
        text_config=text, vision_config=VISION, tie_word_embeddings=True, **_ids(tokenizer)
    )


def _text(tokenizer: Any) -> dict[str, Any]:
    return {
        **TEXT,
        "vocab_size": len(tokenizer),
        "num_key_value_heads": 2,
        "head_dim": 32,
        "max_position_embeddings": 4096,
        "pad_token_id": tokenizer.pad_token_id,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [8, 4, 4],
            "mrope_interleaved": True,
            "partial_rotary_factor": 1.0,
        },
    }


def _ids(tokenizer: Any) -> dict[str, int]:
    return {name: tokenizer.convert_tokens_to_ids(token) for name, token in VISION_IDS.items()}


def qwen3_vl_processor(tokenizer: Any, kind: Any = None) -> Any:
    """Return a processor of Qwen3-VL, or of a kind derived from it, with units of 32 pixels."""
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    unit = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    grey = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    size = {"shortest_edge": 32 * 32, "longest_edge": 64 * 32 * 32}
    return (kind or Qwen3VLProcessor)(
        image_processor=Qwen2VLImageProcessor(size=size, **grey, **unit),
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**unit),
        chat_template=qwen2_vl_processor(tokenizer).chat_template,
    )
