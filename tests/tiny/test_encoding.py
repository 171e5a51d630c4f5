from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoProcessor, Qwen2_5_VLProcessor

from docagent_rl.errors import UserError
from docagent_rl.tiny.encoding import encode

PAGE = Image.fromarray(np.full((140, 112, 3), 200, dtype=np.uint8))
CONVERSATION = [
    {"role": "user", "content": "Where is the north?"},
    {"role": "assistant", "content": "<think>I search.</think><search>north</search>"},
    {"role": "user", "content": [{"type": "image", "image": PAGE}]},
    {"role": "assistant", "content": "<think>It is up.</think><answer>up</answer>"},
]


@pytest.fixture(scope="module")
def processor(checkpoint: Path) -> Qwen2_5_VLProcessor:
    return AutoProcessor.from_pretrained(checkpoint)


def test_ids_are_those_of_the_processor(processor: Qwen2_5_VLProcessor) -> None:
    example = encode(CONVERSATION, processor)
    text = processor.apply_chat_template(CONVERSATION, tokenize=False)
    batch = processor(text=[text], images=[PAGE], return_tensors="pt")
    newline = processor.tokenizer.encode("\n")
    # the template closes the last turn with a newline that nobody predicts
    assert example.input_ids.tolist() + newline == batch["input_ids"][0].tolist()
    assert [*example.is_image.tolist(), 0] == batch["mm_token_type_ids"][0].tolist()
    assert torch.equal(example.pixel_values, batch["pixel_values"])
    assert torch.equal(example.image_grid_thw, batch["image_grid_thw"])
    assert example.is_image.sum() == 4 * 5


def test_supervises_what_the_assistant_wrote(processor: Qwen2_5_VLProcessor) -> None:
    example = encode(CONVERSATION, processor)
    written = processor.tokenizer.decode(example.input_ids[example.supervised])
    assert written == (
        "<think>I search.</think><search>north</search><|im_end|>"
        "<think>It is up.</think><answer>up</answer><|im_end|>"
    )


def test_shortened_keeps_the_end_of_the_opening(processor: Qwen2_5_VLProcessor) -> None:
    example = encode(CONVERSATION, processor)
    opening = int(example.supervised.nonzero()[0])
    text = example.input_ids[~example.is_image.bool()].tolist()
    short = example.shortened(5)
    assert short.input_ids.tolist() == text[opening - 5 :]
    assert short.supervised.sum() == example.supervised.sum()
    assert short.input_ids[short.supervised].tolist() == example.input_ids[example.supervised].tolist()
    assert example.shortened(opening).input_ids.tolist() == text


def test_shortened_has_no_image(processor: Qwen2_5_VLProcessor) -> None:
    shown_first = encode(CONVERSATION[2:], processor)
    assert shown_first.is_image.sum() == 4 * 5
    short = shown_first.shortened(len(shown_first.input_ids))
    assert short.is_image.sum() == 0
    assert short.pixel_values is None
    assert short.image_grid_thw is None
    assert "<|vision_start|><|vision_end|>" in processor.tokenizer.decode(short.input_ids)


def test_text_only(processor: Qwen2_5_VLProcessor) -> None:
    example = encode(CONVERSATION[:2], processor)
    assert example.pixel_values is None
    assert example.image_grid_thw is None
    assert example.is_image.sum() == 0


@pytest.mark.parametrize("conversation", [[], CONVERSATION[:1], CONVERSATION[:3]])
def test_must_end_with_the_assistant(processor: Qwen2_5_VLProcessor, conversation: list) -> None:
    with pytest.raises(UserError):
        encode(conversation, processor)


def test_a_placeholder_is_a_blank_page(processor: Qwen2_5_VLProcessor) -> None:
    example = encode([{"role": "user", "content": [{"type": "image"}]}, CONVERSATION[1]], processor)
    assert example.is_image.sum() == 4 * 5
    # white everywhere: each of the 3 channels has one value
    assert len(example.pixel_values.unique()) == 3


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "user", "content": [{"type": "image", "image": "page.png"}]}, "needs a PIL image"),
        ({"role": "user", "content": "see <|image_pad|>"}, r"message 0 .*<\|image_pad\|> in its text"),
        ({"role": "user", "content": [{"type": "text", "text": "<|image_pad|>"}]}, "message 0"),
        ({"role": "assistant", "content": [{"type": "text", "text": "a"}]}, "message 0 .* must be a string"),
    ],
)
def test_refuses_what_has_no_tokens(processor: Qwen2_5_VLProcessor, message: dict, reason: str) -> None:
    with pytest.raises(UserError, match=reason):
        encode([message, CONVERSATION[1]], processor)
