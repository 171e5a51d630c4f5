import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from docagent_rl.lab.tiny.tokenizer import build_tokenizer, encode

TOKENIZER = build_tokenizer()


@settings(max_examples=50)
@given(st.text())
def test_any_text_survives(text):
    # the tokenizer composes characters (NFC), as Qwen2's does
    composed = TOKENIZER.backend_tokenizer.normalizer.normalize_str(text)
    assert TOKENIZER.decode(TOKENIZER.encode(text, split_special_tokens=True)) == composed


def test_tags_and_words_of_a_system_are_learnt_from_what_it_writes():
    texts = ["<think>I see.</think><magnify>42</magnify>", "Ask about polyglacial matters."] * 60
    own, again = build_tokenizer(texts), build_tokenizer(texts)
    assert len(own.encode("<magnify>")) <= 3 < len(TOKENIZER.encode("<magnify>"))
    assert len(own.encode(" polyglacial")) == 1 < len(TOKENIZER.encode(" polyglacial"))
    assert len(own) == len(TOKENIZER)
    assert own.backend_tokenizer.to_str() == again.backend_tokenizer.to_str()


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
    assert (
        example.input_ids.tolist() + processor.tokenizer.encode("\n")
        == batch["input_ids"][0].tolist()
    )
    assert [*example.is_image.tolist(), 0] == batch["mm_token_type_ids"][0].tolist()
    assert torch.equal(example.vision["pixel_values"], batch["pixel_values"])
    assert torch.equal(example.vision["image_grid_thw"], batch["image_grid_thw"])
    assert example.is_image.sum() == 4 * 5


def test_supervises_what_the_assistant_wrote(processor, example):
    written = processor.tokenizer.decode(example.input_ids[example.supervised])
    assert written == "".join(f"{turn}<|im_end|>" for turn in TURNS)


def test_shortened_keeps_the_end_of_the_opening(example):
    opening = int(example.supervised.nonzero()[0])
    text = example.input_ids[~example.is_image.bool()].tolist()
    short = example.shortened(5)
    assert short.input_ids.tolist() == text[opening - 5 :]
    assert (
        short.input_ids[short.supervised].tolist() == example.input_ids[example.supervised].tolist()
    )
    assert example.shortened(opening).input_ids.tolist() == text
