"""Tiny rerankers with random weights: the real classes in the layouts of published checkpoints."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from docagent_rl.lab.tiny.indexes import qwen2_vl_processor, randomise
from docagent_rl.lab.tiny.tokenizer import build_tokenizer
from docagent_rl.retrieval.rerank.spec import RERANKERS, RerankerSpec
from tests.tiny_retrievers import TEXT, word_piece_tokenizer

VISION_IDS = {
    "image_token_id": "<|image_pad|>",
    "video_token_id": "<|video_pad|>",
    "vision_start_token_id": "<|vision_start|>",
    "vision_end_token_id": "<|vision_end|>",
}


class TinyReranker(StrEnum):
    """What can be built."""

    CROSS_ENCODER = "cross_encoder"
    """A BERT with a head of one class: ms-marco-MiniLM, bge-reranker."""
    TEXT = "text"
    """A Qwen3: Qwen3-Reranker."""
    IMAGE = "image"
    """A Qwen3-VL: Qwen3-VL-Reranker."""


KNOWN = {
    TinyReranker.CROSS_ENCODER: "minilm-l6-reranker",
    TinyReranker.TEXT: "qwen3-reranker-0.6b",
    TinyReranker.IMAGE: "qwen3-vl-reranker-2b",
}


def tiny_reranker(kind: TinyReranker, folder: Path, **changes: Any) -> RerankerSpec:
    """How a tiny model is used: as the published one, in full precision."""
    given = {"model": str(folder), "dtype": "float32", "query_tokens": 32} | changes
    return RERANKERS[KNOWN[kind]].spec.model_copy(update=given)


def build_reranker(kind: TinyReranker, folder: Path, seed: int = 0) -> Path:
    """Write a tiny model; the same kind and seed give the same weights."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, processor = _BUILDERS[kind]()
    randomise(model.eval(), seed)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _cross_encoder() -> tuple[Any, Any]:
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = word_piece_tokenizer()
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, num_labels=1, **TEXT)
    return BertForSequenceClassification(config), tokenizer


def _text() -> tuple[Any, Any]:
    from transformers import Qwen3Config, Qwen3ForCausalLM

    tokenizer = answering_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        **TEXT,
    )
    return Qwen3ForCausalLM(config), tokenizer


def _image() -> tuple[Any, Any]:
    from transformers import Qwen3VLForConditionalGeneration

    tokenizer = answering_tokenizer()
    return Qwen3VLForConditionalGeneration(qwen3_vl(tokenizer)), qwen3_vl_processor(tokenizer)


def answering_tokenizer() -> Any:
    """The tokenizer of the tiny models, in which yes and no are tokens."""
    tokenizer = build_tokenizer()
    tokenizer.add_tokens(["yes", "no"])
    return tokenizer


def qwen3_vl(tokenizer: Any) -> Any:
    """The configuration of a tiny Qwen3-VL."""
    from transformers import Qwen3VLConfig

    text = {
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
        },
    }
    vision = {
        "depth": 2,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_heads": 2,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": TEXT["hidden_size"],
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
    }
    ids = {name: tokenizer.convert_tokens_to_ids(token) for name, token in VISION_IDS.items()}
    return Qwen3VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids)


def qwen3_vl_processor(tokenizer: Any) -> Any:
    """Qwen3-VL's processor: units of 32 pixels."""
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    unit = {"patch_size": 16, "merge_size": 2, "temporal_patch_size": 2}
    images = Qwen2VLImageProcessor(
        size={"shortest_edge": 32 * 32, "longest_edge": 64 * 32 * 32},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
        **unit,
    )
    return Qwen3VLProcessor(
        image_processor=images,
        tokenizer=tokenizer,
        video_processor=Qwen3VLVideoProcessor(**unit),
        chat_template=qwen2_vl_processor(tokenizer).chat_template,
    )


_BUILDERS = {
    TinyReranker.CROSS_ENCODER: _cross_encoder,
    TinyReranker.TEXT: _text,
    TinyReranker.IMAGE: _image,
}
