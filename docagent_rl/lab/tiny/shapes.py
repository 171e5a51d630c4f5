"""Sizes of the tiny models: the real classes of each family, with two layers of width 128."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import transformers

from docagent_rl.base.errors import UserError
from docagent_rl.documents.grid import GridRule
from docagent_rl.lab.tiny.tokenizer import (
    END_OF_TEXT,
    END_OF_TURN,
    IMAGE_TOKEN,
    MAX_LENGTH,
    VIDEO_TOKEN,
    VISION_END,
    VISION_START,
)
from docagent_rl.models import get_family

LAYERS = 2
WIDTH = 128
ROPE_THETA = 1e4
"""Lower than the released 1e6: there are only 16 frequencies, most of which would hardly rotate
within a prompt.
"""
TEXT = {
    "hidden_size": WIDTH,
    "intermediate_size": 384,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": MAX_LENGTH,
    "rms_norm_eps": 1e-6,
}
"""Sizes of the language model. Heads of 32 are the smallest that vLLM's CPU attention supports."""
SMALLEST_TEXT = {
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
}
SMALLEST_EXPERTS = {"moe_intermediate_size": 32, "shared_expert_intermediate_size": 32}
SMALLEST_TOWER = {
    "depth": 1,
    "num_hidden_layers": 1,
    "hidden_size": 32,
    "intermediate_size": 32,
    "num_heads": 1,
    "num_attention_heads": 1,
    "out_hidden_size": 32,
}
"""Sizes of a model whose passes over long rows take a CPU as little time as possible."""
EXPERTS = {
    "norm_topk_prob": True,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
}
DELTA_NET = {
    "layer_types": ["linear_attention", "full_attention"],
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 32,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "mamba_ssm_dtype": "float32",  # as released: the type in which vLLM stores the state
}
TOWER = {
    "depth": 2,
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_heads": 3,
    "out_hidden_size": WIDTH,
}
TOWER_QWEN3 = {**TOWER, "num_position_embeddings": 256}
QWEN3_PIXELS = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}


_PADS = {"image": IMAGE_TOKEN, "video": VIDEO_TOKEN}
MARKS = {**_PADS, "vision_start": VISION_START, "vision_end": VISION_END}
OTHER_MARKS = {
    **_PADS,
    "image_start": VISION_START,
    "image_end": VISION_END,
    "video_start": "<|quad_start|>",
    "video_end": "<|quad_end|>",
}
"""Special tokens that a configuration names: in families that mark images and videos with the same
tokens, and in others.
"""


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The classes of a family, and the sizes of its tiny model.

    Args:
        prefix: prefix of its configuration class in transformers (`<prefix>Config`).
        text: settings of the language model, on top of `TEXT`.
        rope: settings on top of the default rotary embedding.
        vision: settings of the vision tower; empty for a text-only model.
        processor: prefix of the class names of processor and video processor.
        image_processor: class name of the image processor.
        pixels: settings of the image processor, in addition to those of the family.
        tokens: the family's names of special tokens, by Qwen's names, if they differ.
        attributes: special tokens by the attribute of the tokenizer that the processor reads.
    """

    prefix: str
    text: Mapping[str, Any]
    rope: Mapping[str, Any] = field(default_factory=dict)
    vision: Mapping[str, Any] = field(default_factory=dict)
    processor: str = ""
    image_processor: str = "Qwen2VLImageProcessor"
    pixels: Mapping[str, Any] = field(default_factory=dict)
    tokens: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)

    def token(self, name: str) -> str:
        """Return the family's name for one of Qwen's special tokens."""
        return self.tokens.get(name, name)


def _qwen3(
    prefix: str, text: Mapping[str, Any], rope: Mapping[str, Any], **vision: Any
) -> ModelShape:
    tower = {**TOWER_QWEN3, **vision}
    return ModelShape(prefix, text, rope, tower, processor="Qwen3VL", pixels=QWEN3_PIXELS)


INTERNVL = {
    IMAGE_TOKEN: "<IMG_CONTEXT>",
    VIDEO_TOKEN: "<video>",
    VISION_START: "<img>",
    VISION_END: "</img>",
}
GEMMA4 = {
    IMAGE_TOKEN: "<|image|>",
    VIDEO_TOKEN: "<|video|>",
    VISION_START: "<|image>",
    VISION_END: "<image|>",
}
_ROPE = {"rope_type": "default", "rope_theta": ROPE_THETA}
_INTERLEAVED = {"mrope_section": [6, 5, 5], "mrope_interleaved": True}
_QUARTER = {"mrope_section": [3, 3, 2], "mrope_interleaved": True, "partial_rotary_factor": 0.25}
SHAPES: Mapping[str, ModelShape] = {
    "qwen2_5_vl": ModelShape(
        "Qwen2_5_VL",
        text={"layer_types": ["full_attention"] * LAYERS},
        rope={"mrope_section": [4, 6, 6]},
        vision={**TOWER, "window_size": 112, "fullatt_block_indexes": [1]},
        processor="Qwen2_5_VL",
    ),
    "qwen3_vl": _qwen3("Qwen3VL", {"head_dim": 32}, _INTERLEAVED, deepstack_visual_indexes=[0]),
    "qwen3_vl_moe": _qwen3(
        "Qwen3VLMoe", {"head_dim": 32, **EXPERTS}, _INTERLEAVED, deepstack_visual_indexes=[0]
    ),
    "qwen3_5": _qwen3("Qwen3_5", {"head_dim": 64, **DELTA_NET}, _QUARTER),
    "qwen3_5_moe": _qwen3(
        "Qwen3_5Moe",
        {"head_dim": 64, **DELTA_NET, **EXPERTS, "shared_expert_intermediate_size": 64},
        _QUARTER,
    ),
    "qwen3": ModelShape("Qwen3", text={"head_dim": 32}),
    "llama": ModelShape("Llama", text={}),
    "gemma3": ModelShape(
        "Gemma3Text",
        text={
            "head_dim": 32,
            "layer_types": ["full_attention"] * LAYERS,
            "rope_parameters": dict.fromkeys(("full_attention", "sliding_attention"), _ROPE),
        },
    ),
    "gemma4": ModelShape(
        "Gemma4",
        text={
            "num_hidden_layers": 2 * LAYERS,
            "num_kv_shared_layers": LAYERS,  # the last layers, as released
            "layer_types": ["sliding_attention", "full_attention"] * LAYERS,
            "head_dim": 32,
            "global_head_dim": 64,
            "hidden_size_per_layer_input": 32,
            "use_double_wide_mlp": True,
            "final_logit_softcapping": 30.0,
            "pad_token_id": 0,  # as released: transformers reads this key, vLLM hard-codes zero
            "rope_parameters": {
                "sliding_attention": _ROPE,
                "full_attention": {
                    "rope_type": "proportional",
                    "rope_theta": 1e5,
                    "partial_rotary_factor": 0.25,
                },
            },
        },
        vision={
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "num_key_value_heads": 3,
            "head_dim": 32,
        },
        processor="Gemma4",
        image_processor="Gemma4ImageProcessor",
        tokens=GEMMA4,
        attributes={
            "image_token": GEMMA4[IMAGE_TOKEN],
            "boi_token": GEMMA4[VISION_START],
            "eoi_token": GEMMA4[VISION_END],
            # newer processors require these even without audio
            "audio_token": "<|audio|>",
            "boa_token": "<|audio>",
            "eoa_token": "<audio|>",
        },
    ),
    "internvl": ModelShape(
        "InternVL",
        text={"model_type": "qwen2", "layer_types": ["full_attention"] * LAYERS},
        vision={
            "hidden_size": 96,
            "intermediate_size": 192,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
        },
        processor="InternVL",
        image_processor="GotOcr2ImageProcessor",
        pixels={"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]},
        tokens=INTERNVL,
        attributes={
            "start_image_token": INTERNVL[VISION_START],
            "end_image_token": INTERNVL[VISION_END],
            "context_image_token": INTERNVL[IMAGE_TOKEN],
            "video_token": INTERNVL[VIDEO_TOKEN],
        },
    ),
    "glm4v": ModelShape(
        "Glm4v",
        # as released; transformers always has these biases, vLLM only with this key
        text={"attention_bias": True},
        rope={"mrope_section": [2, 3, 3], "partial_rotary_factor": 0.5},
        vision={**TOWER, "image_size": 336},
        processor="Glm4v",
        image_processor="Glm4vImageProcessor",
        tokens={
            IMAGE_TOKEN: "<|image|>",
            VIDEO_TOKEN: "<|video|>",
            VISION_START: "<|begin_of_image|>",
            VISION_END: "<|end_of_image|>",
            "<|quad_start|>": "<|begin_of_video|>",
            "<|quad_end|>": "<|end_of_video|>",
        },
    ),
}
"""Shapes by family (`docagent_rl.models`)."""


def get_shape(family: str) -> ModelShape:
    """Return the shape of a family's tiny model.

    Raises:
        UserError: there is no tiny model of it.
    """
    if family not in SHAPES:
        raise UserError(
            f"there is no tiny model of {family}; choose one of {', '.join(sorted(SHAPES))}"
        )
    return SHAPES[family]


def smallest_shape(family: str) -> ModelShape:
    """Return the shape of a family's smallest model: one layer of each kind, with a single head.

    Raises:
        UserError: there is no tiny model of the family, or its layers depend on each other.
    """
    shape = get_shape(family)
    if "num_kv_shared_layers" in shape.text:
        raise UserError(f"there is no smaller model of {family}: its layers share keys and values")
    text = {**shape.text, **SMALLEST_TEXT}
    kinds = list(dict.fromkeys(shape.text.get("layer_types", ())))
    text["num_hidden_layers"] = max(1, len(kinds))
    if kinds:
        text["layer_types"] = kinds
    text |= {name: size for name, size in SMALLEST_EXPERTS.items() if name in text}
    tower = {**shape.vision}
    tower |= {name: size for name, size in SMALLEST_TOWER.items() if name in tower}
    if "fullatt_block_indexes" in tower:
        tower["fullatt_block_indexes"] = []
    return replace(shape, text=text, vision=tower)


def tiny_config(tokenizer: Any, family: str = "qwen2_5_vl", *, smallest: bool = False) -> Any:
    """Return the configuration; `vocab_size` is exactly `len(tokenizer)`.

    With a padded vocabulary, the trainer would have logits for rows that the rollout engine never
    samples. `smallest` chooses `smallest_shape`.
    """
    shape = smallest_shape(family) if smallest else get_shape(family)
    vision = get_family(family).vision

    def token(name: str) -> int:
        return tokenizer.convert_tokens_to_ids(shape.token(name))

    text = {
        **TEXT,
        "vocab_size": len(tokenizer),
        "rope_parameters": {**_ROPE, **shape.rope},
        "tie_word_embeddings": True,
        "bos_token_id": token(END_OF_TEXT),
        "eos_token_id": token(END_OF_TURN),
        "pad_token_id": token(END_OF_TEXT),
        **shape.text,
    }
    config = getattr(transformers, f"{shape.prefix}Config")
    if vision is None:
        return config(**text, dtype="float32")
    if vision.grid.rule is GridRule.TILES:
        grid = vision.grid
        image = token(IMAGE_TOKEN)
        tower = {**shape.vision, "image_size": grid.tile, "patch_size": vision.patch}
        tokens = {"image_token_id": image, "image_seq_length": (grid.tile // grid.unit) ** 2}
        return config(text_config=text, vision_config=tower, **tokens, dtype="float32")
    if vision.grid.rule is GridRule.FILLS:
        names = {"image": IMAGE_TOKEN, "video": VIDEO_TOKEN, "boi": VISION_START, "eoi": VISION_END}
        tower = {**shape.vision, "patch_size": vision.patch, "pooling_kernel_size": vision.merge}
        tower["default_output_length"] = vision.grid_of(tiny=True).most_tokens
        text["vocab_size_per_layer_input"] = len(tokenizer)
        ids = {f"{name}_token_id": token(mark) for name, mark in names.items()}
        return config(
            text_config=text, vision_config=tower, **ids, tie_word_embeddings=True, dtype="float32"
        )
    tower = {
        **shape.vision,
        "patch_size": vision.patch,
        "temporal_patch_size": 2,
        "spatial_merge_size": 2,
    }
    ids = {
        f"{name}_token_id": token(mark)
        for name, mark in (OTHER_MARKS if shape.tokens else MARKS).items()
    }
    return config(
        text_config=text, vision_config=tower, **ids, tie_word_embeddings=True, dtype="float32"
    )


def build_processor(tokenizer: Any, family: str = "qwen2_5_vl") -> Any:
    """Return the processor with the limits of the family's released checkpoints; for a text-only
    family the tokenizer itself.
    """
    shape = get_shape(family)
    vision = get_family(family).vision
    if vision is None:
        return tokenizer
    if vision.grid.rule is GridRule.TILES:
        grid = vision.grid_of(tiny=True)
        video: dict[str, Any] = {"size": {"height": grid.tile, "width": grid.tile}}
        image = {**video, "crop_to_patches": True, "max_patches": grid.max_tiles, **shape.pixels}
        more = {"image_seq_length": (grid.tile // grid.unit) ** 2}
    elif vision.grid.rule is GridRule.FILLS:
        image = vision.numbers(vision.grid_of(tiny=True))
        video = {}
        more = {"feature_extractor": transformers.Gemma4AudioFeatureExtractor()}
    else:
        size = {"shortest_edge": vision.grid.min_pixels, "longest_edge": vision.grid.max_pixels}
        merged = {"merge_size": vision.merge, "patch_size": vision.patch, "temporal_patch_size": 2}
        image = {"size": size, **merged, **shape.pixels}
        more = {}
        video = image
    video_class = {"Qwen2_5_VL": "Qwen2VL"}.get(shape.processor, shape.processor)
    return getattr(transformers, f"{shape.processor}Processor")(
        image_processor=getattr(transformers, shape.image_processor)(**image),
        tokenizer=tokenizer,
        video_processor=getattr(transformers, f"{video_class}VideoProcessor")(**video),
        chat_template=tokenizer.chat_template,
        **more,
    )
