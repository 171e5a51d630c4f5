import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers.models.qwen2_vl.image_processing_qwen2_vl import Qwen2VLImageProcessor

from docagent_rl.rollout.patches import (
    FORMAT,
    GRIDS,
    PATCHES,
    PatchFormat,
    features,
    pack,
    picture,
    unpack,
    unpack_each,
)

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
    assert (
        unpack(patches, layout).nbytes
        == 8 * patches.nbytes
        == 8 * layout.patch_bytes * len(patches)
    )
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
    assert features(row, "meta")["pixel_values"].device.type == "meta"
    other = {"pixel_values": torch.zeros(4, 1176)}
    assert features(other) is other
    assert features({}) == {}


class Other(Qwen2VLImageProcessor):
    """An image processor that rescales in another way."""

    def rescale_and_normalize(self, images, *args):
        return super().rescale_and_normalize(images, *args) * 2


@pytest.mark.parametrize(
    "processor", [Other(), object()], ids=["other numbers", "no such processor"]
)
def test_a_processor_of_another_kind_has_no_format(processor):
    assert PatchFormat.of(processor) is None


def test_several_images_become_the_features_of_all():
    """Images are not joined first; one has more patches than are converted at a time."""
    layout = PatchFormat.of(QWEN2_5)
    pictures = [noise(196, 112), noise(448, 420), noise(140, 140)]
    packed = [pack(QWEN2_5, each, layout)[0] for each in pictures]
    assert [len(patches) for patches in packed] == [112, 960, 100]
    whole = QWEN2_5(images=pictures, return_tensors="pt")["pixel_values"]
    assert torch.equal(unpack_each(packed, layout, device="cpu"), whole)
    half = unpack_each(packed, layout, dtype=torch.float16, device="cpu")
    assert torch.equal(half, whole.to(torch.float16))


def test_a_format_travels_as_numbers():
    layout = PatchFormat.of(QWEN3)
    assert (layout.side, layout.frames, layout.merge, layout.channels) == (16, 2, 2, 3)
    assert (layout.mean, layout.std) == ((127.5,) * 3, (127.5,) * 3)
    assert layout.field().tolist() == [[16.0, 2.0, 2.0, *[127.5] * 6]]
    assert layout.patch_bytes == 3 * 16 * 16
    read = PatchFormat.read(layout.field())
    assert read == layout
    assert type(read.side) is int


def test_an_odd_picture_is_put_together_in_its_own_shape():
    layout = PatchFormat.of(QWEN3)
    for width, height in ((96, 64), (64, 96), (256, 64)):
        made = picture(*pack(QWEN3, noise(width, height), layout), layout)
        whole = QWEN3(
            images=[noise(width, height)], return_tensors="pt", do_rescale=False, do_normalize=False
        )
        grid = whole[GRIDS][0].tolist()
        assert made.size == (grid[2] * 16, grid[1] * 16)
