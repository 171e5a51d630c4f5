from __future__ import annotations

import pytest
import torch
from PIL import Image

from docagent_rl.base.errors import UserError
from docagent_rl.lab.tiny.encoding import encode

PAGE = Image.new("RGB", (112, 140), (200, 200, 200))
TURNS = (
    "<think>I search.</think><search>north</search>",
    "<think>It is up.</think><answer>up</answer>",
)
CONVERSATION = [
    {"role": "user", "content": "Where is the north?"},
    {"role": "assistant", "content": TURNS[0]},
    {"role": "user", "content": [{"type": "image", "image": PAGE}]},
    {"role": "assistant", "content": TURNS[1]},
]


@pytest.fixture(scope="module")
def example(processor):
    return encode(CONVERSATION, processor)


def test_ids_are_those_of_the_processor(processor, example):
    text = processor.apply_chat_template(CONVERSATION, tokenize=False)
    batch = processor(text=[text], images=[PAGE], return_tensors="pt")
    # the template closes the last turn with a newline that nobody predicts
    assert example.input_ids.tolist() + processor.tokenizer.encode("\n") == batch["input_ids"][0].tolist()
    assert [*example.is_image.tolist(), 0] == batch["mm_token_type_ids"][0].tolist()
    assert torch.equal(example.pixel_values, batch["pixel_values"])
    assert torch.equal(example.image_grid_thw, batch["image_grid_thw"])
    assert example.is_image.sum() == 4 * 5


def test_supervises_what_the_assistant_wrote(processor, example):
    written = processor.tokenizer.decode(example.input_ids[example.supervised])
    assert written == "".join(f"{turn}<|im_end|>" for turn in TURNS)


def test_shortened_keeps_the_end_of_the_opening(example):
    opening = int(example.supervised.nonzero()[0])
    text = example.input_ids[~example.is_image.bool()].tolist()
    short = example.shortened(5)
    assert short.input_ids.tolist() == text[opening - 5 :]
    assert short.input_ids[short.supervised].tolist() == example.input_ids[example.supervised].tolist()
    assert example.shortened(opening).input_ids.tolist() == text


def test_shortened_has_no_image(processor):
    shown_first = encode(CONVERSATION[2:], processor)
    assert shown_first.is_image.sum() == 4 * 5
    short = shown_first.shortened(len(shown_first.input_ids))
    assert (int(short.is_image.sum()), short.pixel_values, short.image_grid_thw) == (0, None, None)
    assert "<|vision_start|><|vision_end|>" in processor.tokenizer.decode(short.input_ids)


def test_a_placeholder_is_a_blank_page(processor):
    blank = encode([{"role": "user", "content": [{"type": "image"}]}, CONVERSATION[1]], processor)
    assert blank.is_image.sum() == 4 * 5
    # white everywhere: each of the 3 channels has one value
    assert len(blank.pixel_values.unique()) == 3


def after(role, content):
    return [{"role": role, "content": content}, CONVERSATION[1]]


@pytest.mark.parametrize(
    ("conversation", "said"),
    [
        ([], None),
        (CONVERSATION[:1], None),
        (CONVERSATION[:3], None),
        (after("user", [{"type": "image", "image": "page.png"}]), "PIL"),
        (after("user", "see <|image_pad|>"), r"message 0 .*<\|image_pad\|>"),
        (after("user", [{"type": "text", "text": "<|image_pad|>"}]), "message 0"),
        (after("assistant", [{"type": "text", "text": "a"}]), "message 0"),
    ],
)
def test_refuses_what_has_no_tokens_and_what_does_not_end_with_the_assistant(processor, conversation, said):
    with pytest.raises(UserError, match=said):
        encode(conversation, processor)
