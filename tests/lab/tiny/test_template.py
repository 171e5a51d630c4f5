from __future__ import annotations

import pytest
from transformers import AutoProcessor, AutoTokenizer

DEFAULT = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n"
IMAGE = "<|vision_start|><|image_pad|><|vision_end|>"
HI = {"role": "user", "content": "Hi"}
SHOWN = {"role": "user", "content": [{"type": "image"}]}
PARTS = [
    {"type": "text", "text": "See "},
    {"type": "image"},
    {"type": "text", "text": " and "},
    {"image": "page.png"},
    {"type": "image_url", "image_url": {"url": "x"}},
    {"type": "text", "text": ".\n"},
]


def turn(role, text):
    return f"<|im_start|>{role}\n{text}<|im_end|>\n"


CASES = {
    "parts in their order, no separators": (
        [{"role": "user", "content": PARTS}],
        {},
        DEFAULT + turn("user", f"See {IMAGE} and {IMAGE}{IMAGE}.\n"),
    ),
    "several turns and a generation prompt": (
        [
            {"role": "system", "content": "Be brief. {{ x }}"},
            HI,
            {"role": "assistant", "content": "<think>a</think><search>b</search>"},
            SHOWN,
        ],
        {"add_generation_prompt": True},
        turn("system", "Be brief. {{ x }}")
        + turn("user", "Hi")
        + turn("assistant", "<think>a</think><search>b</search>")
        + turn("user", IMAGE)
        + "<|im_start|>assistant\n",
    ),
    "numbered images and videos": (
        [SHOWN, SHOWN, {"role": "user", "content": [{"type": "video"}]}],
        {"add_vision_id": True},
        DEFAULT
        + turn("user", f"Picture 1: {IMAGE}")
        + turn("user", f"Picture 2: {IMAGE}")
        + turn("user", "Video 1: <|vision_start|><|video_pad|><|vision_end|>"),
    ),
}


@pytest.mark.parametrize("loader", [AutoTokenizer, AutoProcessor])
def test_renders_as_qwen2_5_vl(checkpoint, loader):
    loaded = loader.from_pretrained(checkpoint)
    for name, (messages, options, expected) in CASES.items():
        assert loaded.apply_chat_template(messages, tokenize=False, **options) == expected, name
