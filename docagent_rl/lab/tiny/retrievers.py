"""Tiny retrieval models with random weights: the real classes in the layouts of published checkpoints.

They rank pages by chance, and run every line that a released checkpoint runs.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Any

from docagent_rl.lab.tiny import retriever_parts as parts
from docagent_rl.lab.tiny import retriever_texts


class TinyRetriever(StrEnum):
    """What can be built, by the class that reads it."""

    COLQWEN2 = "colqwen2"
    """colpali-engine's ColQwen2."""
    COLQWEN2_ADAPTER = "colqwen2_adapter"
    """A LoRA adapter over it, as colqwen2-v1.0 is published; the base lies beside it."""
    COLQWEN2_FOR_RETRIEVAL = "colqwen2_for_retrieval"
    """transformers' ColQwen2ForRetrieval."""
    COLQWEN2_5 = "colqwen2_5"
    COLPALI = "colpali"
    COLPALI_FOR_RETRIEVAL = "colpali_for_retrieval"
    COLIDEFICS3 = "colidefics3"
    COLMODERNVBERT = "colmodernvbert"
    COLMODERNVBERT_FOR_RETRIEVAL = "colmodernvbert_for_retrieval"
    COLBERT = "colbert"
    """A BERT in the layout of Stanford's ColBERT (HF_ColBERT)."""
    DENSE_TEXT = "dense_text"
    """A BERT with modules.json: mean pooling, normalised."""
    DENSE_IMAGE = "dense_image"
    """A Qwen2-VL whose last token is the page's vector, as vdr-2b and gme are."""


def build_retriever(kind: TinyRetriever, folder: Path, seed: int = 0) -> Path:
    """Write a tiny model.

    Args:
        kind: which.
        folder: of the model; made.
        seed: of the weights.

    Returns:
        The folder. The same kind and seed give the same weights.
    """
    import torch

    folder.mkdir(parents=True, exist_ok=True)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        _BUILDERS[kind](folder, seed)
    return folder


def _save(model: Any, processor: Any, folder: Path, seed: int) -> None:
    parts.randomise(model.eval(), seed)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)


def _colqwen2(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColQwen2

    tokenizer, config = parts.qwen2_vl()
    _save(ColQwen2(config), parts.qwen2_vl_processor(tokenizer), folder, seed)


def _colqwen2_adapter(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColQwen2
    from peft import LoraConfig

    base = folder / "base"
    _colqwen2(base, seed)
    tokenizer, _ = parts.qwen2_vl()
    model = ColQwen2.from_pretrained(base)
    targets = (
        r".*(language_model).*(down_proj|gate_proj|up_proj|k_proj|q_proj|v_proj|o_proj)|custom_text_proj"
    )
    # as released: the projection is adapted too
    model.add_adapter(LoraConfig(r=4, lora_alpha=8, target_modules=targets, init_lora_weights="gaussian"))
    parts.randomise_adapter(model, seed + 1)
    model.save_pretrained(folder)
    parts.rewrite_json(folder / "adapter_config.json", base_model_name_or_path="base")
    parts.qwen2_vl_processor(tokenizer).save_pretrained(folder)


def _colqwen2_for_retrieval(folder: Path, seed: int) -> None:
    from transformers import ColQwen2Config, ColQwen2ForRetrieval, ColQwen2Processor

    tokenizer, config = parts.qwen2_vl()
    image_processor = parts.qwen2_vl_processor(tokenizer).image_processor
    processor = ColQwen2Processor(image_processor=image_processor, tokenizer=tokenizer)
    _save(ColQwen2ForRetrieval(ColQwen2Config(vlm_config=config)), processor, folder, seed)


def _colqwen2_5(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColQwen2_5

    from docagent_rl.lab.tiny.model import tiny_config
    from docagent_rl.lab.tiny.processor import build_processor
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    _save(ColQwen2_5(tiny_config(tokenizer)), build_processor(tokenizer), folder, seed)


def _colpali(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColPali, ColPaliProcessor

    tokenizer, config, images = parts.paligemma()
    _save(ColPali(config), ColPaliProcessor(image_processor=images, tokenizer=tokenizer), folder, seed)


def _colpali_for_retrieval(folder: Path, seed: int) -> None:
    from transformers import ColPaliConfig, ColPaliForRetrieval, ColPaliProcessor

    tokenizer, config, images = parts.paligemma()
    model = ColPaliForRetrieval(ColPaliConfig(vlm_config=config, text_config=config.text_config))
    _save(model, ColPaliProcessor(image_processor=images, tokenizer=tokenizer), folder, seed)


def _colidefics3(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColIdefics3, ColIdefics3Processor

    tokenizer, images = parts.idefics3()
    processor = ColIdefics3Processor(image_processor=images, tokenizer=tokenizer, **parts.IDEFICS3_PROCESSOR)
    _save(ColIdefics3(parts.idefics3_config(tokenizer)), processor, folder, seed)


def _colmodernvbert(folder: Path, seed: int) -> None:
    from colpali_engine.models import ColModernVBert, ColModernVBertProcessor

    tokenizer, images = parts.idefics3()
    processor = ColModernVBertProcessor(
        image_processor=images, tokenizer=tokenizer, **parts.IDEFICS3_PROCESSOR
    )
    _save(ColModernVBert(parts.modernvbert_config(tokenizer)), processor, folder, seed)


def _colmodernvbert_for_retrieval(folder: Path, seed: int) -> None:
    from transformers import ColModernVBertConfig, ColModernVBertForRetrieval, ColModernVBertProcessor

    tokenizer, images = parts.idefics3()
    processor = ColModernVBertProcessor(
        image_processor=images, tokenizer=tokenizer, **parts.IDEFICS3_PROCESSOR
    )
    config = ColModernVBertConfig(vlm_config=parts.modernvbert_config(tokenizer))
    _save(ColModernVBertForRetrieval(config), processor, folder, seed)


def _colbert(folder: Path, seed: int) -> None:
    model, tokenizer = retriever_texts.bert(seed)
    tokenizer.save_pretrained(folder)
    retriever_texts.save_colbert(model, folder, dim=32, seed=seed)


def _dense_text(folder: Path, seed: int) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    model, tokenizer = retriever_texts.bert(seed)
    plain = folder / "plain"
    model.save_pretrained(plain)
    tokenizer.save_pretrained(plain)
    transformer = Transformer(str(plain), max_seq_length=64)
    pooling = Pooling(transformer.get_embedding_dimension(), pooling_mode="mean")
    SentenceTransformer(modules=[transformer, pooling, Normalize()], device="cpu").save(str(folder))
    parts.remove(plain)


def _dense_image(folder: Path, seed: int) -> None:
    from transformers import Qwen2VLForConditionalGeneration

    tokenizer, config = parts.qwen2_vl()
    processor = parts.qwen2_vl_processor(tokenizer)
    _save(Qwen2VLForConditionalGeneration(config), processor, folder, seed)


_BUILDERS: dict[TinyRetriever, Callable[[Path, int], None]] = {
    TinyRetriever.COLQWEN2: _colqwen2,
    TinyRetriever.COLQWEN2_ADAPTER: _colqwen2_adapter,
    TinyRetriever.COLQWEN2_FOR_RETRIEVAL: _colqwen2_for_retrieval,
    TinyRetriever.COLQWEN2_5: _colqwen2_5,
    TinyRetriever.COLPALI: _colpali,
    TinyRetriever.COLPALI_FOR_RETRIEVAL: _colpali_for_retrieval,
    TinyRetriever.COLIDEFICS3: _colidefics3,
    TinyRetriever.COLMODERNVBERT: _colmodernvbert,
    TinyRetriever.COLMODERNVBERT_FOR_RETRIEVAL: _colmodernvbert_for_retrieval,
    TinyRetriever.COLBERT: _colbert,
    TinyRetriever.DENSE_TEXT: _dense_text,
    TinyRetriever.DENSE_IMAGE: _dense_image,
}
