"""Tiny rerankers with random weights: the real classes in the layouts of published checkpoints."""

from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from docagent_rl.lab.tiny.model import initialise
from docagent_rl.retrieval.rerank.spec import RERANKERS, RerankerSpec
from tests.tiny_qwen3 import TEXT, answering_tokenizer, qwen3_vl, qwen3_vl_processor
from tests.tiny_retrievers import word_piece_tokenizer


class TinyReranker(StrEnum):
    """The tiny rerankers that can be built."""

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
    """Return the specification of a tiny model, which is used as the published one, in full
    precision.
    """
    given = {"model": str(folder), "dtype": "float32", "query_tokens": 32} | changes
    return RERANKERS[KNOWN[kind]].model_copy(update=given)


def build_reranker(kind: TinyReranker, folder: Path, seed: int = 0) -> Path:
    """Write a tiny model; the same kind and seed give the same weights."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model, processor = _BUILDERS[kind]()
    initialise(model.eval(), seed)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _cross_encoder() -> tuple[Any, Any]:
    from transformers import BertConfig, BertForSequenceClassification

    tokenizer = word_piece_tokenizer()
    config = BertConfig(
        vocab_size=len(tokenizer), max_position_embeddings=128, num_labels=1, **TEXT
    )
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


_BUILDERS = {
    TinyReranker.CROSS_ENCODER: _cross_encoder,
    TinyReranker.TEXT: _text,
    TinyReranker.IMAGE: _image,
}
