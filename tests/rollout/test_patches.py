import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

from docagent_rl.rollout.patches import FORMAT, GRIDS, PATCHES, PatchFormat, features, pack, picture, unpack

QWEN2_5 = Qwen2VLImageProcessor()
QWEN3 = Qwen2VLImageProcessor(patch_size=16, image_mean=[0.5] * 3, image_std=[0.5] * 3)


def noise(width: int, height: int) -> Image.Image:
    generator = torch.Generator().manual_seed(width * 7919 + height)
    pixels = torch.randint(0, 256, (height, width, 3), generator=generator, dtype=torch.uint8)
    return Image.fromarray(pixels.numpy())


@pytest.mark.parametrize("processor", [QWEN2_5, QWEN3], ids=["14 pixels", "16 pixels"])
@given(width=st.integers(60, 160), height=st.integers(60, 160))
@settings(max_examples=5, deadline=None)
def test_features_are_those_of_the_processor_to_the_bit(processor, width, height):
    pixels = noise(width, height)  # of any size: the processor resizes it
    whole = processor(images=[pixels], return_tensors="pt")
    layout = PatchFormat.of(processor)
    patches, grid = pack(processor, pixels, layout)
    assert torch.equal(grid, whole[GRIDS])
    assert torch.equal(unpack(patches, layout), whole["pixel_values"])
    half = unpack(patches, layout, torch.bfloat16)
    assert torch.equal(half, whole["pixel_values"].to(torch.bfloat16))
    # an eighth of the bytes
    assert patches.dtype == torch.uint8
    assert unpack(patches, layout).nbytes == 8 * patches.nbytes == 8 * layout.patch_bytes * len(patches)
    assert PatchFormat.read(torch.cat([layout.field(), layout.field()])) == layout


def test_a_picture_comes_back_whole():
    pixels = noise(196, 112)
    layout = PatchFormat.of(QWEN2_5)
    assert picture(*pack(QWEN2_5, pixels, layout), layout).tobytes() == pixels.tobytes()


def test_rows_become_features_and_others_stay():
    layout = PatchFormat.of(QWEN2_5)
    patches, grid = pack(QWEN2_5, noise(140, 140), layout)
    seconds = torch.tensor([100])
    row = {PATCHES: patches, FORMAT: layout.field(), GRIDS: grid, "images_seqlens": seconds}
    made = features(row)
    assert list(made) == ["pixel_values", GRIDS, "images_seqlens"]
    assert made["pixel_values"].shape == (100, 1176)
    other = {"pixel_values": torch.zeros(4, 1176)}
    assert features(other) is other
    assert features({}) == {}


class Other(Qwen2VLImageProcessor):
    """Rescales in another way."""

    def rescale_and_normalize(self, images, *args):
        return super().rescale_and_normalize(images, *args) * 2


@pytest.mark.parametrize("processor", [Other(), object()], ids=["other numbers", "no such processor"])
def test_a_processor_of_another_kind_has_no_format(processor):
    assert PatchFormat.of(processor) is None
