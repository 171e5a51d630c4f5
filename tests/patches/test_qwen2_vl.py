"""verl's forward of Qwen2.5-VL without flash-attn and of batches without an image.

Its numbers of packed rows: `tests/training/attention/test_packed_engine.py`.
"""

from __future__ import annotations

import pytest
import torch
import verl.models.transformers.glm4v as copied
import verl.models.transformers.qwen2_vl as upstream
from transformers import AutoModelForImageTextToText

from docagent_rl.training.attention.varlen import flash_attn_varlen_func
from docagent_rl.training.attention.ways import flash_attn_version

IMAGE, START, END = 60, 62, 63
GRID = torch.tensor([[1, 8, 4]])
"""In patches: eight image tokens, two windows of the vision tower."""
WITH_IMAGE = [5, START, *[IMAGE] * 8, END, 6]


@pytest.mark.skipif(flash_attn_version() is not None, reason="flash-attn is installed")
def test_names_are_those_of_torch():
    for module in (upstream, copied):
        assert module.flash_attn_varlen_func is flash_attn_varlen_func
        assert module._flash_use_top_left_mask is False
        # of a pack of one row, whatever the model is configured to use
        assert module._flash_attention_forward.keywords == {"attn_implementation": "flash_attention_2"}


IDS = torch.tensor([[5, 6, 7], [8, 9, 0]])


@pytest.fixture
def model(qwen2_5_vl_config):
    """The inner model, on which verl's forward calls `_get_input_embeds`."""
    return AutoModelForImageTextToText.from_config(qwen2_5_vl_config).model


def test_embeddings_of_text_are_those_of_the_table(model):
    mask = torch.ones_like(IDS)
    embeds, returned = upstream._get_input_embeds(model, IDS, mask)
    assert torch.equal(embeds, model.get_input_embeddings()(IDS))
    assert torch.equal(returned, mask)
    # every visual parameter takes part, with gradient zero
    embeds, returned = upstream._get_input_embeds(model, IDS)
    assert returned is None
    embeds.sum().backward()
    gradients = {name: parameter.grad for name, parameter in model.visual.named_parameters()}
    assert [name for name, gradient in gradients.items() if gradient is None] == []
    assert all(gradient.abs().max() == 0 for gradient in gradients.values())


def test_blank_image_is_where_the_embeddings_are_and_not_where_their_weight_is_kept(model):
    """As under FSDP2's offload: the weight is on the host again when its output is on the accelerator."""
    found = {}

    def receive(encoder, args, kwargs):
        found.update(pixels=args[0].device.type, grid=kwargs["grid_thw"].device.type)
        shape = args[0].shape  # the encoder itself is on the host here
        return (torch.zeros(shape),), {"grid_thw": torch.tensor([[1, 4, 4]])}

    model.get_input_embeddings().register_forward_hook(lambda _, args, output: output.to("meta"))
    model.visual.register_forward_pre_hook(receive, with_kwargs=True)
    embeds, mask = upstream._get_input_embeds(model, IDS, torch.ones_like(IDS))
    assert found == {"pixels": "meta", "grid": "meta"}
    assert (embeds.device.type, mask.device.type) == ("meta", "meta")
    assert model.get_input_embeddings().weight.device.type == "cpu"


def test_images_go_the_way_of_upstream(model):
    vision, ids = model.config.vision_config, torch.tensor([WITH_IMAGE])
    pixels = torch.randn(32, vision.in_channels * vision.temporal_patch_size * vision.patch_size**2)
    found, expected = (
        function(model, ids, pixel_values=pixels, image_grid_thw=GRID)[0]
        for function in (upstream._get_input_embeds, upstream._get_input_embeds.__wrapped__)
    )
    assert found.shape == expected.shape == (1, len(WITH_IMAGE), 32)
    assert torch.equal(found[0, 0], model.get_input_embeddings().weight[WITH_IMAGE[0]])
    assert not torch.equal(found[0, 2], model.get_input_embeddings().weight[IMAGE])
