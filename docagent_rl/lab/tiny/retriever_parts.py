"""Small configurations, tokenizers and processors of the tiny retrieval models."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, cast

from docagent_rl.lab.tiny.corpus import sentences

IDEFICS3_SPECIAL = (
    *("<|endoftext|>", "<pad>", "[CLS]", "[SEP]", "[MASK]", "<image>", "<fake_token_around_image>"),
    *("<global-img>", "<end_of_utterance>", "<|im_start|>", "<|im_end|>", "<|begin_of_text|>"),
    *(f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)),
)
IDEFICS3_PROCESSOR: dict[str, Any] = {"image_seq_len": 16, "chat_template": "{{ messages }}"}
IDEFICS3_VISION = {
    "hidden_size": 48,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "image_size": 128,
    "patch_size": 16,
}


def randomise(model: Any, seed: int) -> None:
    """Draw all weights: pad rows and biases too, so that padding is seen where it leaks."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    norms = {
        id(parameter)
        for module in model.modules()
        if "norm" in type(module).__name__.lower()
        for parameter in module.parameters(recurse=False)
    }
    with torch.no_grad():
        for parameter in model.parameters():
            if id(parameter) in norms:
                continue
            scale = parameter[0].numel() ** -0.5 if parameter.ndim >= 2 else 0.02
            parameter.normal_(0.0, scale, generator=generator)


def randomise_adapter(model: Any, seed: int) -> None:
    """Draw the adapter's weights, half of which are zero when it is made."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.normal_(0.0, 0.2, generator=generator)


def rewrite_json(path: Path, **changes: Any) -> None:
    """Change keys of a file."""
    content = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps({**content, **changes}, indent=1), encoding="utf-8")


def remove(folder: Path) -> None:
    """Delete a folder that was needed in between."""
    shutil.rmtree(folder)


def qwen2_vl() -> tuple[Any, Any]:
    """A tokenizer and the configuration of a Qwen2-VL."""
    from transformers import Qwen2VLConfig

    from docagent_rl.lab.tiny.model import tiny_config
    from docagent_rl.lab.tiny.tokenizer import build_tokenizer

    tokenizer = build_tokenizer()
    like = tiny_config(tokenizer)
    text = cast("Any", like.text_config).to_dict()
    for name in ("model_type", "dtype", "architectures"):
        text.pop(name, None)
    vision = {
        "depth": 2,
        "embed_dim": 96,
        "hidden_size": 128,
        "num_heads": 3,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }
    ids = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")
    config = Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        tie_word_embeddings=True,
        **{name: getattr(like, name) for name in ids},
    )
    return tokenizer, config


def qwen2_vl_processor(tokenizer: Any) -> Any:
    """Qwen2-VL's processor around a tokenizer."""
    from transformers import Qwen2VLProcessor

    from docagent_rl.lab.tiny.processor import build_processor

    like = build_processor(tokenizer)
    return Qwen2VLProcessor(
        image_processor=like.image_processor,
        tokenizer=tokenizer,
        video_processor=like.video_processor,
        chat_template=like.chat_template,
    )


def paligemma() -> tuple[Any, Any, Any]:
    """Tokenizer, configuration and image processor of a PaliGemma: always 448 by 448 pixels, 1024 patches."""
    from transformers import PaliGemmaConfig, SiglipImageProcessor

    names = {"eos_token": "<eos>", "bos_token": "<bos>", "unk_token": "<unk>", "pad_token": "<pad>"}
    tokenizer = _byte_tokenizer(
        (*names.values(), "<image>"), extra_special_tokens={"image_token": "<image>"}, **names
    )
    text = {
        "model_type": "gemma",
        # PaliGemma's processor adds 1024 tokens for places and 128 for segments
        "vocab_size": len(tokenizer) + 1200,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "pad_token_id": tokenizer.pad_token_id,
    }
    vision = {
        "model_type": "siglip_vision_model",
        "hidden_size": 48,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 448,
        "patch_size": 14,
        "projection_dim": 64,
    }
    config = PaliGemmaConfig(
        text_config=text,
        vision_config=vision,
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=64,
    )
    images: Any = SiglipImageProcessor(size={"height": 448, "width": 448})
    images.image_seq_length = 1024
    return tokenizer, config, images


def idefics3() -> tuple[Any, Any]:
    """Tokenizer and image processor of an Idefics3: tiles of 128 pixels, pages of 512 at most."""
    from transformers import Idefics3ImageProcessor

    tokenizer = _byte_tokenizer(
        IDEFICS3_SPECIAL,
        pad_token="<pad>",
        eos_token="<|endoftext|>",
        unk_token="<|endoftext|>",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    images = Idefics3ImageProcessor(
        size={"longest_edge": 512}, max_image_size={"longest_edge": 128}, do_image_splitting=True
    )
    return tokenizer, images


def idefics3_config(tokenizer: Any) -> Any:
    """Of an Idefics3."""
    from transformers import Idefics3Config

    text = {
        "model_type": "llama",
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "pad_token_id": tokenizer.pad_token_id,
    }
    return Idefics3Config(
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pad_token_id=tokenizer.pad_token_id,
        scale_factor=2,
        vision_config={"model_type": "idefics3_vision", **IDEFICS3_VISION},
        text_config=text,
    )


def modernvbert_config(tokenizer: Any) -> Any:
    """Of a ModernVBERT."""
    from transformers import ModernVBertConfig

    cls, sep = tokenizer.cls_token_id, tokenizer.sep_token_id
    text = {
        "model_type": "modernbert",
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "max_position_embeddings": 8192,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": cls,
        "cls_token_id": cls,
        "eos_token_id": sep,
        "sep_token_id": sep,
    }
    return ModernVBertConfig(
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        pixel_shuffle_factor=2,
        vision_config={"model_type": "siglip_vision_model", **IDEFICS3_VISION},
        text_config=text,
    )


def _byte_tokenizer(special: tuple[str, ...], **names: Any) -> Any:
    """Bytes and a few merges, and these special tokens first."""
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
