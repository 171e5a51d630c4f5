"""A small BERT and its tokenizer, for the tiny retrieval models that read text."""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

from docagent_rl.lab.tiny.corpus import sentences
from docagent_rl.lab.tiny.retriever_parts import randomise


def bert(seed: int) -> tuple[Any, Any]:
    """A BERT and its tokenizer of whole words and pieces."""
    from transformers import BertConfig, BertModel, BertTokenizer

    tokenizer = BertTokenizer(vocab=_word_pieces(), do_lower_case=True, model_max_length=128)
    config = BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=128,
        max_position_embeddings=128,
    )
    model = BertModel(config, add_pooling_layer=False).eval()
    randomise(model, seed)
    return model, tokenizer


def _word_pieces(words: int = 500) -> dict[str, int]:
    """Characters, alone and inside of words, and frequent words; a trainer would break ties at random."""
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]")
    characters = [*string.ascii_lowercase, *string.digits]
    pieces = [*special, *characters, *(f"##{each}" for each in characters), *string.punctuation]
    found = Counter(word for text in sentences() for word in re.findall(r"[a-z]{2,}", text.lower()))
    frequent = sorted(found, key=lambda word: (-found[word], word))[:words]
    return {piece: number for number, piece in enumerate([*pieces, *frequent])}


def save_colbert(model: Any, folder: Path, *, dim: int, seed: int) -> None:
    """Write a BERT in the layout of Stanford's ColBERT: the projection beside it, its settings in a file.

    Args:
        model: a BERT.
        folder: holds the tokenizer.
        dim: length of a token's vector.
        seed: of the projection.
    """
    import torch
    from safetensors.torch import save_file

    generator = torch.Generator().manual_seed(seed)
    tensors = {f"bert.{name}": tensor.clone().contiguous() for name, tensor in model.state_dict().items()}
    size = model.config.hidden_size
    tensors["linear.weight"] = torch.randn(dim, size, generator=generator) / size**0.5
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_dict(), "architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    settings = {
        "dim": dim,
        "query_maxlen": 32,
        "doc_maxlen": 100,
        "mask_punctuation": True,
        "query_token_id": "[unused0]",
        "doc_token_id": "[unused1]",
        "attend_to_mask_tokens": False,
    }
    (folder / "artifact.metadata").write_text(json.dumps(settings), encoding="utf-8")
