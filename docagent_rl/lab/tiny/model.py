"""A Qwen2.5-VL of about a million parameters and its processor: the real classes, small sizes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import nn
from transformers import (
    GenerationConfig,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2_5_VLProcessor,
    Qwen2Tokenizer,
    Qwen2VLImageProcessor,
)
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.utils import logging as transformers_logging

from docagent_rl.base.errors import UserError
from docagent_rl.base.io import atomic_dir, remove_leftovers
from docagent_rl.lab.tiny.tokenizer import (
    CHAT_TEMPLATE,
    END_OF_TEXT,
    END_OF_TURN,
    IMAGE_TOKEN,
    MAX_LENGTH,
    VIDEO_TOKEN,
    VISION_END,
    VISION_START,
    Conversation,
    build_tokenizer,
)
from docagent_rl.lab.tiny.warm_up import WarmUp, digest
from docagent_rl.lab.tiny.warm_up import warm_up as run_warm_up

if TYPE_CHECKING:
    from transformers import Qwen2_5_VLTextConfig

PATCHES = {"patch_size": 14, "temporal_patch_size": 2}
MERGE_SIZE = 2
PIXELS = {"shortest_edge": 56 * 56, "longest_edge": 12_845_056}
"""Limits of the released checkpoints; a smaller budget for a page is the environment's business."""
EMBEDDING_STD = 0.1
ROPE_THETA = 1e4
"""Lower than the released 1e6: with 16 frequencies alone, most would hardly turn within a prompt."""


def tiny_config(tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLConfig:
    """Return the configuration; `vocab_size` is exactly `len(tokenizer)`.

    A vocabulary padded beyond the tokenizer would give the trainer logits for rows that the rollout engine
    never samples. The text head size is 32, the smallest that vLLM's CPU attention takes, so the three parts
    of M-RoPE (time, height, width) add up to 16 frequencies.
    """
    ids = {
        "bos_token_id": _token_id(tokenizer, END_OF_TEXT),
        "eos_token_id": _token_id(tokenizer, END_OF_TURN),
        "pad_token_id": _token_id(tokenizer, END_OF_TEXT),
    }
    layers = 2
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": layers,
        "layer_types": ["full_attention"] * layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": MAX_LENGTH,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": ROPE_THETA,
            "mrope_section": [4, 6, 6],
        },
        "tie_word_embeddings": True,
        **ids,
    }
    vision = {
        "depth": 2,
        "hidden_size": 96,
        "intermediate_size": 192,
        "num_heads": 3,
        "out_hidden_size": text["hidden_size"],
        "spatial_merge_size": MERGE_SIZE,
        **PATCHES,
        "window_size": 112,
        "fullatt_block_indexes": [1],
    }
    return Qwen2_5_VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=_token_id(tokenizer, IMAGE_TOKEN),
        video_token_id=_token_id(tokenizer, VIDEO_TOKEN),
        vision_start_token_id=_token_id(tokenizer, VISION_START),
        vision_end_token_id=_token_id(tokenizer, VISION_END),
        tie_word_embeddings=True,
        dtype="float32",
    )


def build_processor(tokenizer: Qwen2Tokenizer) -> Qwen2_5_VLProcessor:
    """Return the processor; one visual token covers 28 by 28 pixels of the resized image."""
    settings: dict[str, Any] = {"size": PIXELS, "merge_size": MERGE_SIZE, **PATCHES}
    return Qwen2_5_VLProcessor(
        image_processor=Qwen2VLImageProcessor(**settings),
        tokenizer=tokenizer,
        video_processor=Qwen2VLVideoProcessor(**settings),
        chat_template=CHAT_TEMPLATE,
    )


def _token_id(tokenizer: Qwen2Tokenizer, token: str) -> int:
    return cast("int", tokenizer.convert_tokens_to_ids(token))  # of one token


def build_model(config: Qwen2_5_VLConfig, seed: int) -> Qwen2_5_VLForConditionalGeneration:
    """Return a float32 model whose weights depend on `seed` alone.

    The global random state is left as it was.
    """
    with torch.random.fork_rng(devices=[]):
        model = Qwen2_5_VLForConditionalGeneration(config)
    model = model.to(torch.float32).eval()
    initialise(model, seed)
    text = cast("Qwen2_5_VLTextConfig", config.text_config)
    model.generation_config = GenerationConfig(
        bos_token_id=text.bos_token_id,
        pad_token_id=text.pad_token_id,
        eos_token_id=[text.eos_token_id, text.pad_token_id],
        do_sample=True,
    )
    return model


@torch.no_grad()
def initialise(model: nn.Module, seed: int) -> None:
    """Draw every weight matrix from N(0, 1/fan_in), embeddings from N(0, 0.1²); biases 0, norm weights 1.

    With the library's standard deviation of 0.02 a model of this width sits on a plateau for minutes before
    it learns to use its attention.
    """
    generator = torch.Generator().manual_seed(seed)
    embeddings = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding)}
    for name, parameter in model.named_parameters():
        if id(parameter) in embeddings:
            parameter.normal_(0.0, EMBEDDING_STD, generator=generator)
        elif parameter.ndim >= 2:
            parameter.normal_(0.0, parameter[0].numel() ** -0.5, generator=generator)
        else:
            parameter.fill_(0.0 if name.endswith("bias") else 1.0)


FINGERPRINT_FILE = "docagent_tiny_model.json"
"""What a build was made of, kept beside the weights."""

LIBRARIES = ("torch", "transformers", "tokenizers")


def build_tiny_qwen2_5_vl(
    path: Path, *, seed: int = 0, warm_up: WarmUp | None = None, show_progress: bool = False
) -> Path:
    """Write a checkpoint directory and return its path; do nothing when `path` already holds this build.

    The weights are a function of `seed`, of the warm-up and of its transcripts. With a warm-up, the tokenizer
    also learns the words of the transcripts, so that prompts are short.

    Args:
        path: directory of the checkpoint; an older build in it is replaced in one step.
        seed: of the initial weights.
        warm_up: supervised training that follows, or None for random weights.
        show_progress: draw a progress bar while training.

    Raises:
        UserError: `path` holds something that this function did not write, or the transcripts are unusable.
    """
    path = Path(path)
    conversations = warm_up.draw() if warm_up else []
    fingerprint = _fingerprint(seed, warm_up, conversations)
    if _is_built(path, fingerprint):
        remove_leftovers(path)
        return path
    tokenizer = build_tokenizer(_texts(conversations))
    processor = build_processor(tokenizer)
    model = build_model(tiny_config(tokenizer), seed)
    if warm_up:
        run_warm_up(model, processor, conversations, warm_up, show_progress=show_progress)
    with atomic_dir(path) as directory, _no_progress_bars():
        processor.save_pretrained(directory)
        model.save_pretrained(directory)
        text = json.dumps(fingerprint, indent=2, sort_keys=True) + "\n"
        (directory / FINGERPRINT_FILE).write_text(text, encoding="utf-8")
        for file in directory.iterdir():
            # the weights are written for their owner alone
            file.chmod(0o644)
    return path


def _fingerprint(seed: int, settings: WarmUp | None, conversations: Sequence[Conversation]) -> dict:
    """Return everything that the bytes of a build depend on, as plain JSON values."""
    sources = hashlib.sha256()
    for file in sorted(Path(__file__).parent.glob("*.py")):
        sources.update(file.name.encode() + b"\0" + file.read_bytes())
    return {
        "seed": seed,
        "warm_up": settings.numbers() | {"conversations": digest(conversations)} if settings else None,
        "sources": sources.hexdigest(),
        "libraries": {name: version(name) for name in LIBRARIES},
    }


def _is_built(path: Path, fingerprint: dict) -> bool:
    """Tell whether `path` holds the build; refuse a directory of anything else, which would be lost."""
    if not path.exists():
        return False
    sample = path / FINGERPRINT_FILE
    if not sample.is_file():
        if path.is_dir() and not any(path.iterdir()):
            return False
        raise UserError(f"{path} exists and is not a tiny checkpoint of docagent-rl; choose another path")
    try:
        found = json.loads(sample.read_text(encoding="utf-8"))
    except ValueError:
        return False
    return found == fingerprint and (path / "model.safetensors").is_file()


def _texts(conversations: Iterable[Conversation]) -> Iterator[str]:
    for conversation in conversations:
        for message in conversation:
            content = message["content"]
            if isinstance(content, str):
                yield content
            else:
                yield from (part["text"] for part in content if "text" in part)


@contextmanager
def _no_progress_bars() -> Generator[None]:
    was_enabled = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if was_enabled:
            transformers_logging.enable_progress_bar()
