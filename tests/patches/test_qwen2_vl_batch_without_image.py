from __future__ import annotations

import pytest
import torch
import verl.models.transformers.qwen2_vl as upstream
import verl.models.transformers.qwen3_vl as qwen3
from transformers import AutoModelForImageTextToText, Qwen3VLConfig

from tests.patches.conftest import VISION, text_config

TEXT = torch.tensor([[5, 6, 7], [8, 9, 0]])
IMAGE_TOKEN = 60


@pytest.fixture
def model(qwen2_5_vl_config):
    """The inner model, on which verl's forward calls `_get_input_embeds`."""
    return AutoModelForImageTextToText.from_config(qwen2_5_vl_config).model


def image(model) -> dict[str, torch.Tensor]:
    vision = model.config.vision_config
    size = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    return {"pixel_values": torch.rand(16, size), "image_grid_thw": torch.tensor([[1, 4, 4]])}


def test_upstream_still_takes_the_mean_of_a_model_output(model):
    with pytest.raises(AttributeError, match="mean"):
        upstream._get_input_embeds.__wrapped__(model, TEXT)


def test_embeddings_of_text_are_those_of_the_table(model):
    mask = torch.ones_like(TEXT)
    embeds, returned = upstream._get_input_embeds(model, TEXT, mask)
    assert torch.equal(embeds, model.get_input_embeddings()(TEXT))
    assert torch.equal(returned, mask)
    # every visual parameter takes part, with gradient zero
    embeds, returned = upstream._get_input_embeds(model, TEXT)
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
    embeds, mask = upstream._get_input_embeds(model, TEXT, torch.ones_like(TEXT))
    assert found == {"pixels": "meta", "grid": "meta"}
    assert (embeds.device.type, mask.device.type) == ("meta", "meta")
    assert model.get_input_embeddings().weight.device.type == "cpu"


def test_images_go_the_way_of_upstream(model):
    ids = torch.tensor([[5, *[IMAGE_TOKEN] * 4, 6]])
    embeds, _ = upstream._get_input_embeds(model, ids, **image(model))
    expected, _ = upstream._get_input_embeds.__wrapped__(model, ids, **image(model))
    assert embeds.shape == expected.shape == (1, 6, 32)
    assert torch.equal(embeds[0, 0], model.get_input_embeddings().weight[5])
    assert not torch.equal(embeds[0, 1], model.get_input_embeddings().weight[IMAGE_TOKEN])


def test_qwen3_vl_does_not_have_the_defect():
    text = {**text_config(), "head_dim": 16}
    del text["layer_types"]
    vision = {**VISION, "num_position_embeddings": 16, "deepstack_visual_indexes": [0]}
    config = Qwen3VLConfig(text_config=text, vision_config=vision, image_token_id=IMAGE_TOKEN)
    model = AutoModelForImageTextToText.from_config(config).model
    embeds = qwen3._get_input_embeds(model, TEXT)["inputs_embeds"]
    assert torch.equal(embeds, model.get_input_embeddings()(TEXT))
