from __future__ import annotations

import pytest
import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

from tools.gpu_check.batches import PATCH, ROWS, Pictures, Row, make_batch
from tools.gpu_check.models import SMALL, configuration


@pytest.fixture(scope="module")
def config() -> Qwen2_5_VLConfig:
    return configuration(SMALL)


@pytest.mark.parametrize("kind", Pictures)
def test_rows_have_as_many_placeholders_as_features(config, kind):
    data = make_batch(ROWS[kind], config)
    shown_ids = zip(data["input_ids"].unbind(), data["multi_modal_inputs"], strict=True)
    for row, (ids, shown) in zip(ROWS[kind], shown_ids, strict=True):
        placeholders = int((ids == config.image_token_id).sum())
        assert placeholders == row.images * row.image_tokens
        assert len(ids) == row.tokens
        patches = shown["pixel_values"].shape if row.images else (0, PATCH)
        assert tuple(patches) == (placeholders * 4, PATCH)


def test_only_words_are_sampled(config):
    data = make_batch(ROWS[Pictures.MIXED], config)
    special = torch.tensor([config.image_token_id, config.vision_start_token_id, config.vision_end_token_id])
    for responses, mask in zip(data["responses"].unbind(), data["response_mask"].unbind(), strict=True):
        assert torch.equal(mask.bool(), ~torch.isin(responses, special))


def test_positions_are_those_that_the_model_would_count(config):
    row = Row(6, 9, 2, (4, 8))
    data = make_batch([row], config)
    ids, (shown,) = data["input_ids"].unbind()[0], data["multi_modal_inputs"]
    with torch.device("meta"):
        model = Qwen2_5_VLForConditionalGeneration(config)
    kinds = (ids == config.image_token_id).long()[None]
    expected, _ = model.model.get_rope_index(ids[None], kinds, image_grid_thw=shown["image_grid_thw"])
    ours = data["position_ids"].unbind()[0]
    assert torch.equal(ours[1:], expected[:, 0])
    assert torch.equal(ours[0], torch.arange(row.tokens))
