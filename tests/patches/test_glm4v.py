"""verl's forward pass of GLM-4V under transformers 5, compared with transformers' own."""

import subprocess
import sys

import pytest
import torch
import transformers.models.glm4v.modeling_glm4v as glm4v
import verl.models.transformers.glm4v as upstream
from transformers import AutoModelForImageTextToText, Glm4vConfig
from verl.utils import flops_counter

from docagent_rl.training.hardware import flash_attn_version
from tests.patches.conftest import SMALL

IMAGE, START, END = 60, 62, 63
GRID = torch.tensor([[1, 8, 4]])
"""An image size in patches: eight image tokens."""
TEXT = torch.tensor([[5, 6, 7, 8]])
WITH_IMAGE = torch.tensor([[5, START, *[IMAGE] * 8, END, 6]])


@pytest.fixture
def model():
    """Return the inner model, on which verl's forward calls `_get_input_embeds`."""
    rope = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 1, 1]}
    text = {**SMALL, "rope_parameters": {**rope, "partial_rotary_factor": 0.5}}
    text |= dict.fromkeys(("bos_token_id", "eos_token_id", "pad_token_id"), 0)
    vision = {
        "depth": 1,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 32,
    }
    marks = {"image_token_id": IMAGE, "image_start_token_id": START, "image_end_token_id": END}
    config = Glm4vConfig(text_config=text, vision_config=vision, video_token_id=61, **marks)
    return (
        AutoModelForImageTextToText.from_config(config, attn_implementation="eager").float().model
    )


def test_operations_are_those_of_the_language_model(model):
    count = flops_counter.ESTIMATE_FUNC["glm4v"]
    with pytest.raises(AttributeError, match="hidden_size"):
        count.__wrapped__(model.config, 8, [5, 3], 2.0)  # else the patch is not needed
    found = count(model.config, 8, [5, 3], 2.0)
    width, inner, heads, keys = 32, 48, 2 * 16, 16
    layer = 3 * width * inner + width * (2 * heads + 2 * keys)
    matrices = 6 * 8 * (layer + 2 * 64 * width)
    assert found == pytest.approx((matrices + 6 * (25 + 9) * 16 * 2) / 2 / 1e12)


@pytest.fixture
def pixels():
    return torch.randn(32, 3 * 2 * 14**2, generator=torch.Generator().manual_seed(1))


def test_upstream_still_takes_the_towers_output_for_a_tensor(model, pixels):
    for arguments in ((TEXT,), (WITH_IMAGE, None, pixels, None, GRID)):
        with pytest.raises(AttributeError, match="BaseModelOutputWithPooling"):
            upstream._get_input_embeds.__wrapped__(model, *arguments)


def test_images_are_read_as_transformers_reads_them(model, pixels, monkeypatch):
    places = torch.arange(WITH_IMAGE.shape[1]).expand(3, 1, -1)
    given = {
        "input_ids": WITH_IMAGE,
        "position_ids": places,
        "pixel_values": pixels,
        "image_grid_thw": GRID,
    }
    wanted = model(**given, mm_token_type_ids=(WITH_IMAGE == IMAGE).int()).last_hidden_state
    monkeypatch.setattr(glm4v.Glm4vModel, "forward", upstream.glm4v_base_forward)
    found = model(**given).last_hidden_state
    torch.testing.assert_close(found, wanted)
    assert not torch.allclose(model(**given | {"pixel_values": -pixels}).last_hidden_state, wanted)


def test_without_an_image_every_visual_parameter_takes_part(model):
    embeds, mask = upstream._get_input_embeds(model, TEXT, torch.ones_like(TEXT))
    assert torch.equal(embeds, model.get_input_embeddings()(TEXT))
    assert torch.equal(mask, torch.ones_like(TEXT))
    embeds.sum().backward()
    assert all(not parameter.grad.any() for parameter in model.visual.parameters())


ALONE = """
import sys
import verl
import verl.models.transformers.glm4v as module
assert "verl.models.transformers.qwen2_vl" not in sys.modules
print(module.flash_attn_varlen_func.__module__, module._flash_use_top_left_mask)
"""


@pytest.mark.slow
@pytest.mark.skipif(flash_attn_version() is not None, reason="flash-attn is installed")
def test_attention_over_packed_rows_is_there_in_a_process_that_imports_no_other_model():
    """As in a worker of GLM, the names that Qwen2-VL's module gets are not looked up."""
    done = subprocess.run(
        [sys.executable, "-c", ALONE], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines()[-1] == "docagent_rl.training.attention False"
