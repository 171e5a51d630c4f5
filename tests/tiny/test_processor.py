from __future__ import annotations

import pytest
from PIL import Image
from transformers import AutoProcessor, Qwen2_5_VLProcessor, Qwen2Tokenizer


@pytest.fixture(scope="module")
def loaded(checkpoint):
    return AutoProcessor.from_pretrained(checkpoint)


def test_classes_and_limits_are_those_of_the_released_checkpoints(loaded):
    assert (type(loaded), type(loaded.tokenizer)) == (Qwen2_5_VLProcessor, Qwen2Tokenizer)
    images = loaded.image_processor
    assert (images.size["shortest_edge"], images.size["longest_edge"]) == (56 * 56, 12_845_056)
    assert (images.patch_size, images.merge_size, images.temporal_patch_size) == (14, 2, 2)


@pytest.mark.parametrize(
    ("size", "rows", "columns"),
    # (width, height); 753 by 532 rounds to 756 by 532, 27 * 19 tokens
    [((112, 140), 10, 8), ((140, 112), 8, 10), ((20, 20), 4, 4), ((753, 532), 38, 54)],
)
def test_placeholders_expand_to_the_visual_tokens(loaded, size, rows, columns):
    text = "<|vision_start|><|image_pad|><|vision_end|>"
    batch = loaded(text=[text], images=[Image.new("RGB", size)], return_tensors="pt")
    assert batch["image_grid_thw"].tolist() == [[1, rows, columns]]
    assert batch["pixel_values"].shape == (rows * columns, 3 * 2 * 14 * 14)
    assert (batch["input_ids"] == loaded.image_token_id).sum() == rows * columns // 4
    assert batch["input_ids"].shape[1] == rows * columns // 4 + 2


def test_verl_loads_it_with_its_position_function(checkpoint):
    from verl.utils import tokenizer as verl_tokenizer

    processor = verl_tokenizer.hf_processor(str(checkpoint))
    assert type(processor) is Qwen2_5_VLProcessor
    assert callable(processor.get_rope_index)
    tokenizer = verl_tokenizer.hf_tokenizer(str(checkpoint))
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
