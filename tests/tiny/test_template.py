from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoProcessor, AutoTokenizer

DEFAULT = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"

CASES = {
    "default system turn": (
        [{"role": "user", "content": "Hi"}],
        {},
        DEFAULT + "<|im_start|>user\nHi<|im_end|>\n",
    ),
    "system turn of the conversation": (
        [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}],
        {},
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n",
    ),
    "generation prompt": (
        [{"role": "user", "content": "Hi"}],
        {"add_generation_prompt": True},
        DEFAULT + "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
    ),
    "parts in their order, no separators": (
        [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See "},
                    {"type": "image"},
                    {"type": "text", "text": " and "},
                    {"image": "page.png"},
                    {"type": "image_url", "image_url": {"url": "x"}},
                    {"type": "text", "text": ".\n"},
                ],
            }
        ],
        {},
        DEFAULT + f"<|im_start|>user\nSee {IMAGE} and {IMAGE}{IMAGE}.\n<|im_end|>\n",
    ),
    "several turns": (
        [
            {"role": "user", "content": [{"type": "text", "text": "Q"}]},
            {"role": "assistant", "content": "<think>a</think><search>b</search>"},
            {"role": "user", "content": [{"type": "image"}]},
        ],
        {"add_generation_prompt": True},
        DEFAULT
        + "<|im_start|>user\nQ<|im_end|>\n"
        + "<|im_start|>assistant\n<think>a</think><search>b</search><|im_end|>\n"
        + f"<|im_start|>user\n{IMAGE}<|im_end|>\n<|im_start|>assistant\n",
    ),
    "video": (
        [{"role": "user", "content": [{"type": "video"}]}],
        {},
        DEFAULT + "<|im_start|>user\n<|vision_start|><|video_pad|><|vision_end|><|im_end|>\n",
    ),
    "numbered images": (
        [
            {"role": "user", "content": [{"type": "image"}]},
            {"role": "user", "content": [{"type": "image"}]},
        ],
        {"add_vision_id": True},
        DEFAULT
        + f"<|im_start|>user\nPicture 1: {IMAGE}<|im_end|>\n<|im_start|>user\nPicture 2: {IMAGE}<|im_end|>\n",
    ),
    "tags and braces stay as they are": (
        [{"role": "user", "content": " {{ x }} <bbox> & \n"}],
        {},
        DEFAULT + "<|im_start|>user\n {{ x }} <bbox> & \n<|im_end|>\n",
    ),
}


@pytest.mark.parametrize("loader", [AutoTokenizer, AutoProcessor])
def test_renders_as_qwen2_5_vl(checkpoint: Path, loader: type) -> None:
    loaded = loader.from_pretrained(checkpoint)
    for name, (messages, options, expected) in CASES.items():
        assert loaded.apply_chat_template(messages, tokenize=False, **options) == expected, name


def test_verl_finds_the_default_system_turn(checkpoint: Path) -> None:
    # verl derives it from the difference between one and two empty user turns
    chat_template = pytest.importorskip("verl.utils.tokenizer.chat_template")
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    assert tokenizer.decode(chat_template.initialize_system_prompt(tokenizer)) == DEFAULT
