from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    AutoConfig,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    GenerationConfig,
    Qwen2_5_VLForConditionalGeneration,
)

from docagent_rl.errors import UserError
from docagent_rl.tiny.qwen2_5_vl import FINGERPRINT_FILE, build_tiny_qwen2_5_vl
from docagent_rl.tiny.warm_up import WarmUp


def weights(path: Path) -> str:
    return hashlib.sha256((path / "model.safetensors").read_bytes()).hexdigest()


def stamps(path: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mtime_ns for file in path.iterdir()}


def page(width: int, height: int, seed: int) -> Image.Image:
    return Image.fromarray(np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8))


def test_loads_like_a_hub_checkpoint(checkpoint: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    config = AutoConfig.from_pretrained(checkpoint)
    model, report = AutoModelForImageTextToText.from_pretrained(checkpoint, output_loading_info=True)
    assert type(model) is Qwen2_5_VLForConditionalGeneration
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert model.dtype == torch.float32
    assert config.architectures == ["Qwen2_5_VLForConditionalGeneration"]
    assert config.model_type == "qwen2_5_vl"
    assert model.get_input_embeddings().num_embeddings == len(tokenizer) == config.text_config.vocab_size
    assert config.image_token_id == tokenizer.convert_tokens_to_ids("<|image_pad|>")
    assert config.video_token_id == tokenizer.convert_tokens_to_ids("<|video_pad|>")
    assert config.vision_start_token_id == tokenizer.convert_tokens_to_ids("<|vision_start|>")
    assert config.vision_end_token_id == tokenizer.convert_tokens_to_ids("<|vision_end|>")
    generation = GenerationConfig.from_pretrained(checkpoint)
    assert generation.eos_token_id == tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert generation.pad_token_id == tokenizer.pad_token_id


def test_gradient_reaches_both_towers_through_images_of_two_sizes(checkpoint: Path) -> None:
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    image = {"type": "image"}
    messages = [{"role": "user", "content": [image, {"type": "text", "text": " and "}, image]}]
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    batch = processor(text=[text], images=[page(112, 140, 0), page(300, 120, 1)], return_tensors="pt")
    assert batch["image_grid_thw"].tolist() == [[1, 10, 8], [1, 8, 22]]
    output = model(**batch, labels=batch["input_ids"])
    assert output.logits.shape == (1, batch["input_ids"].shape[1], model.config.text_config.vocab_size)
    output.loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert torch.isfinite(parameter.grad).all(), name
    assert model.model.visual.patch_embed.proj.weight.grad.abs().max() > 0


def test_output_depends_on_the_image(checkpoint: Path) -> None:
    processor = AutoProcessor.from_pretrained(checkpoint)
    model = AutoModelForImageTextToText.from_pretrained(checkpoint)
    text = "<|vision_start|><|image_pad|><|vision_end|>What?"
    with torch.no_grad():
        first, second = (
            model(**processor(text=[text], images=[page(112, 112, seed)], return_tensors="pt")).logits[0, -1]
            for seed in (0, 1)
        )
    assert (first - second).abs().max() > 1e-3


def test_the_seed_decides_the_weights(checkpoint: Path, tmp_path: Path) -> None:
    same = build_tiny_qwen2_5_vl(tmp_path / "same", seed=0)
    other = build_tiny_qwen2_5_vl(tmp_path / "other", seed=1)
    assert weights(same) == weights(checkpoint)
    assert weights(other) != weights(checkpoint)
    names = sorted(file.name for file in checkpoint.iterdir())
    assert names == sorted(file.name for file in other.iterdir())
    for name in set(names) - {"model.safetensors", FINGERPRINT_FILE}:
        assert (other / name).read_bytes() == (checkpoint / name).read_bytes(), name


def test_a_build_is_kept_until_its_settings_change(tmp_path: Path, transcripts: Callable) -> None:
    path = tmp_path / "tiny"
    tiny = partial(WarmUp, transcripts, short_steps=1, pool=4, batch_size=2, threads=1)
    build_tiny_qwen2_5_vl(path, warm_up=tiny(full_steps=1))
    built, first = stamps(path), weights(path)
    assert build_tiny_qwen2_5_vl(path, warm_up=tiny(full_steps=1)) == path
    assert stamps(path) == built
    build_tiny_qwen2_5_vl(path, warm_up=tiny(full_steps=2))
    second = weights(path)
    assert second != first
    build_tiny_qwen2_5_vl(path)
    assert weights(path) not in (first, second)
    build_tiny_qwen2_5_vl(path, warm_up=tiny(full_steps=1))
    assert weights(path) == first


def test_other_transcripts_are_another_build(tmp_path: Path, transcripts: Callable) -> None:
    path = tmp_path / "tiny"
    settings = {"short_steps": 0, "full_steps": 1, "pool": 2, "batch_size": 2, "threads": 1}
    records = []
    for text in ("Be brief.", "Be exact."):
        build_tiny_qwen2_5_vl(path, warm_up=WarmUp(partial(reword, transcripts, text), **settings))
        records.append(json.loads((path / FINGERPRINT_FILE).read_text()))
    assert records[0]["warm_up"].pop("conversations") != records[1]["warm_up"].pop("conversations")
    assert records[0] == records[1]


def reword(sampler: partial[Iterator], text: str, seed: int) -> Iterator:
    for conversation in sampler(seed):
        yield [{"role": "system", "content": text}, *conversation]


def test_a_damaged_build_is_made_again(tmp_path: Path) -> None:
    path = build_tiny_qwen2_5_vl(tmp_path / "tiny")
    whole = weights(path)
    (path / "model.safetensors").unlink()
    assert weights(build_tiny_qwen2_5_vl(path)) == whole
    (path / FINGERPRINT_FILE).write_text("{")
    build_tiny_qwen2_5_vl(path)
    assert json.loads((path / FINGERPRINT_FILE).read_text())["seed"] == 0


def test_never_replaces_what_it_did_not_write(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=tmp_path.name):
        build_tiny_qwen2_5_vl(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["config.json"]


def test_fills_an_empty_directory(tmp_path: Path) -> None:
    empty = tmp_path / "tiny"
    empty.mkdir()
    assert (build_tiny_qwen2_5_vl(empty) / "model.safetensors").is_file()
