"""Tiny retrieval models with random weights: the real classes in the layouts of published
checkpoints.

They rank pages by chance, and run every line that a released checkpoint runs.
"""

import json
import re
import shutil
import string
from collections import Counter
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from docagent_rl.lab.tiny.corpus import sentences
from docagent_rl.lab.tiny.indexes import make_retriever, qwen2_vl, qwen2_vl_processor
from docagent_rl.lab.tiny.model import initialise
from tests.tiny_qwen3 import answering_tokenizer, qwen3_5, qwen3_vl, qwen3_vl_processor

SMALL = {"num_hidden_layers": 2, "num_attention_heads": 2}
TEXT: dict[str, Any] = {**SMALL, "hidden_size": 64, "intermediate_size": 128}
VISION = {**SMALL, "hidden_size": 48, "intermediate_size": 96}


class TinyRetriever(StrEnum):
    """The tiny retrieval models that can be built, by the class that reads them."""

    COLQWEN2 = "colqwen2"
    """colpali-engine's ColQwen2."""
    COLQWEN2_ADAPTER = "colqwen2_adapter"
    """A LoRA adapter over it, as colqwen2-v1.0 is published; the base lies beside it."""
    COLQWEN2_5 = "colqwen2_5"
    COLQWEN3 = "colqwen3"
    COLQWEN3_5 = "colqwen3_5"
    COLPALI = "colpali"
    COLBERT = "colbert"
    """A BERT in the layout of Stanford's ColBERT (HF_ColBERT)."""
    DENSE_TEXT = "dense_text"
    """A BERT with modules.json: mean pooling, normalised."""
    DENSE_IMAGE = "dense_image"
    """A Qwen2-VL whose last token is the page's vector, as vdr-2b and gme are."""
    QWEN3_VL = "qwen3_vl"
    """The same of a Qwen3-VL: Qwen3-VL-Embedding."""


def build_retriever(kind: TinyRetriever, folder: Path, seed: int = 0) -> Path:
    """Write a tiny model; the same kind and seed give the same weights."""
    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _BUILDERS[kind](folder, seed)
    return folder


def _save(model: Any, processor: Any, folder: Path, seed: int) -> None:
    initialise(model.eval(), seed)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _colqwen2_adapter(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColQwen2
    from peft import LoraConfig

    base = folder / "base"
    make_retriever(base, seed)
    tokenizer, _ = qwen2_vl()
    model = ColQwen2.from_pretrained(base)
    targets = (
        r".*(language_model).*(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj)"
        r"|custom_text_proj"
    )
    # as released: the projection is adapted too
    model.add_adapter(
        LoraConfig(r=4, lora_alpha=8, target_modules=targets, init_lora_weights="gaussian")
    )
    generator = torch.Generator().manual_seed(seed + 1)
    with torch.no_grad():  # half of the adapter's weights are zero when it is made
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(0.0, 0.2, generator=generator)
    model.save_pretrained(folder)
    config = folder / "adapter_config.json"
    config.write_text(
        json.dumps({**json.loads(config.read_text()), "base_model_name_or_path": "base"})
    )
    qwen2_vl_processor(tokenizer).save_pretrained(folder)


def _colqwen2_5(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColQwen2_5

    from docagent_rl.lab.tiny.shapes import build_processor, tiny_config
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    _save(ColQwen2_5(tiny_config(tokenizer)), build_processor(tokenizer), folder, seed)


def _colqwen3(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColQwen3, ColQwen3Processor

    tokenizer = answering_tokenizer()
    _save(
        ColQwen3(qwen3_vl(tokenizer)),
        qwen3_vl_processor(tokenizer, ColQwen3Processor),
        folder,
        seed,
    )


def _colqwen3_5(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColQwen3_5, ColQwen3_5Processor

    tokenizer = answering_tokenizer()
    _save(
        ColQwen3_5(qwen3_5(tokenizer)),
        qwen3_vl_processor(tokenizer, ColQwen3_5Processor),
        folder,
        seed,
    )


def _qwen3_vl(folder: Path, seed: int) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    tokenizer = answering_tokenizer()
    model = Qwen3VLForConditionalGeneration(qwen3_vl(tokenizer))
    _save(model, qwen3_vl_processor(tokenizer), folder, seed)


def _colpali(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColPali, ColPaliProcessor

    tokenizer, config, images = _paligemma()
    _save(
        ColPali(config), ColPaliProcessor(image_processor=images, tokenizer=tokenizer), folder, seed
    )


def _colbert(folder: Path, seed: int) -> None:
    """Write the projection next to the BERT, and the settings to a file of their own."""
    from safetensors.torch import save_file

    model, tokenizer = _bert(seed)
    tokenizer.save_pretrained(folder)
    generator = torch.Generator().manual_seed(seed)
    tensors = {
        f"bert.{name}": tensor.clone().contiguous() for name, tensor in model.state_dict().items()
    }
    size = model.config.hidden_size
    tensors["linear.weight"] = torch.randn(32, size, generator=generator) / size**0.5
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {**model.config.to_dict(), "architectures": ["HF_ColBERT"]}
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    settings = {
        "dim": 32,
        "query_maxlen": 32,
        "doc_maxlen": 100,
        "mask_punctuation": True,
        "query_token_id": "[unused0]",
        "doc_token_id": "[unused1]",
        "attend_to_mask_tokens": False,
    }
    (folder / "artifact.metadata").write_text(json.dumps(settings), encoding="utf-8")


def _dense_text(folder: Path, seed: int) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    model, tokenizer = _bert(seed)
    plain = folder / "plain"
    model.save_pretrained(plain)
    tokenizer.save_pretrained(plain)
    transformer = Transformer(str(plain), max_seq_length=64)
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu").save(str(folder))
    shutil.rmtree(plain)


def _dense_image(folder: Path, seed: int) -> None:
    from transformers import Qwen2VLForConditionalGeneration

    tokenizer, config = qwen2_vl()
    _save(Qwen2VLForConditionalGeneration(config), qwen2_vl_processor(tokenizer), folder, seed)


_BUILDERS: dict[TinyRetriever, Callable[[Path, int], None]] = {
    TinyRetriever.COLQWEN2: make_retriever,
    TinyRetriever.COLQWEN2_ADAPTER: _colqwen2_adapter,
    TinyRetriever.COLQWEN2_5: _colqwen2_5,
    TinyRetriever.COLQWEN3: _colqwen3,
    TinyRetriever.COLQWEN3_5: _colqwen3_5,
    TinyRetriever.QWEN3_VL: _qwen3_vl,
    TinyRetriever.COLPALI: _colpali,
    TinyRetriever.COLBERT: _colbert,
    TinyRetriever.DENSE_TEXT: _dense_text,
    TinyRetriever.DENSE_IMAGE: _dense_image,
}


def _paligemma() -> tuple[Any, Any, Any]:
    """Return tokenizer, configuration and image processor: always 448 by 448 pixels, 1024
    patches.
    """
    from transformers import PaliGemmaConfig, SiglipImageProcessor

    names = {"eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = _byte_tokenizer(
        (*names.values(), "<image>"), extra_special_tokens={"image_token": "<image>"}, **names
    )
    text = {
        **TEXT,
        "model_type": "gemma",
        # PaliGemma's processor adds 1024 tokens for places and 128 for segments
        "vocab_size": len(tokenizer) + 1200,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "pad_token_id": tokenizer.pad_token_id,
    }
    sizes = {"image_size": 448, "patch_size": 14, "projection_dim": 64}
    config = PaliGemmaConfig(
        text_config=text,
        vision_config={"model_type": "siglip_vision_model", **VISION, **sizes},
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=64,
    )
    images: Any = SiglipImageProcessor(size={"height": 448, "width": 448})
    images.image_seq_length = 1024
    return tokenizer, config, images


def _byte_tokenizer(special: tuple[str, ...], **names: Any) -> Any:
    """Return a tokenizer of bytes and a few merges, with these special tokens first."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(sentences(), trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names)


def _bert(seed: int) -> tuple[Any, Any]:
    """Return a BERT and its tokenizer of whole words and pieces."""
    from transformers import BertConfig, BertModel

    tokenizer = word_piece_tokenizer()
    config = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=128, **TEXT)
    model = BertModel(config, add_pooling_layer=False).eval()
    initialise(model, seed)
    return model, tokenizer


def word_piece_tokenizer() -> Any:
    """Return a tokenizer of whole words and pieces, for texts of 128 tokens."""
    from transformers import BertTokenizer

    return BertTokenizer(vocab=_word_pieces(), do_lower_case=True, model_max_length=128)


def _word_pieces(words: int = 500) -> dict[str, int]:
    """Return characters, alone and within words, and frequent words, since a trainer would break
    ties at random.
    """
    special = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[unused0]", "[unused1]")
    characters = [*string.ascii_lowercase, *string.digits]
    pieces = [*special, *characters, *(f"##{each}" for each in characters), *string.punctuation]
    found = Counter(word for text in sentences() for word in re.findall(r"[a-z]{2,}", text.lower()))
    frequent = sorted(found, key=lambda word: (-found[word], word))[:words]
    return {piece: number for number, piece in enumerate([*pieces, *frequent])}
