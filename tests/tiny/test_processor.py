from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from transformers import AutoProcessor, Qwen2_5_VLProcessor, Qwen2Tokenizer


@pytest.fixture(scope="module")
def processor(checkpoint: Path) -> Qwen2_5_VLProcessor:
    return AutoProcessor.from_pretrained(checkpoint)


def test_classes_and_limits_are_those_of_the_released_checkpoints(processor: Qwen2_5_VLProcessor) -> None:
    assert type(processor) is Qwen2_5_VLProcessor
    assert type(processor.tokenizer) is Qwen2Tokenizer
    image_processor = processor.image_processor
    assert (image_processor.size["shortest_edge"], image_processor.size["longest_edge"]) == (
        56 * 56,
        12_845_056,
    )
    assert (image_processor.patch_size, image_processor.merge_size, image_processor.temporal_patch_size) == (
        14,
        2,
        2,
    )


@pytest.mark.parametrize(
    ("size", "grid"),
    [((112, 140), (10, 8)), ((140, 112), (8, 10)), ((20, 20), (4, 4)), ((753, 532), (38, 54))],
)
def test_placeholders_expand_to_the_visual_tokens(
    processor: Qwen2_5_VLProcessor, size: tuple[int, int], grid: tuple[int, int]
) -> None:
    # (width, height) -> patches (rows, columns); 753 by 532 rounds to 756 by 532, 27 * 19 tokens
    image = Image.fromarray(np.zeros((size[1], size[0], 3), dtype=np.uint8))
    text = "<|vision_start|><|image_pad|><|vision_end|>"
    batch = processor(text=[text], images=[image], return_tensors="pt")
    rows, columns = grid
    assert batch["image_grid_thw"].tolist() == [[1, rows, columns]]
    assert batch["pixel_values"].shape == (rows * columns, 3 * 2 * 14 * 14)
    assert (batch["input_ids"] == processor.image_token_id).sum() == rows * columns // 4
    assert batch["input_ids"].shape[1] == rows * columns // 4 + 2


def test_verl_loads_it_with_its_position_function(checkpoint: Path) -> None:
    verl_tokenizer = pytest.importorskip("verl.utils.tokenizer")
    processor = verl_tokenizer.hf_processor(str(checkpoint))
    assert type(processor) is Qwen2_5_VLProcessor
    assert callable(processor.get_rope_index)
    tokenizer = verl_tokenizer.hf_tokenizer(str(checkpoint))
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
