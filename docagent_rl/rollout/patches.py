"""Images as patches of bytes: what the processor of the Qwen-VL family makes, before it becomes
floats.

Its features repeat every patch for each frame of a clip, as float32: eight times the bytes of the
picture. What is kept, sent and stored is the picture; the features are made where a model reads
them, equal to the bit to those of the processor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
    from torch import Tensor

PATCHES = "docagent_patches"
"""Field of a row: (p, channels * side * side) uint8."""
FORMAT = "docagent_patch_format"
"""Field of a row: (1, 3 + 2 * channels) float32, its `PatchFormat`."""
GRIDS = "image_grid_thw"
"""The processor's own field: (i, 3) int64, patches over time, height and width of each image."""

_CACHED = 512
"""Patches whose features fit into a processor's cache, so that only the result goes through
memory.
"""


@dataclass(frozen=True, slots=True)
class PatchFormat:
    """The way from bytes to features.

    A patch has `side` pixels and is repeated `frames` times (`temporal_patch_size`); `merge`
    patches of a side become one token (`merge_size`). `mean` and `std` are of each channel, in
    units of bytes.
    """

    side: int
    frames: int
    merge: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, image_processor: Any) -> PatchFormat | None:
        """Find out the format of a processor, by what it makes of a small picture.

        `None`: it does something else with pixels, so that images travel as they are shown.
        """
        try:
            return cls._probed(image_processor)
        except (AttributeError, TypeError, KeyError, RuntimeError):  # RuntimeError: of other shapes
            return None

    @classmethod
    def _probed(cls, image_processor: Any) -> PatchFormat | None:
        import torch

        scale = 1.0 / image_processor.rescale_factor
        found = cls(
            image_processor.patch_size,
            image_processor.temporal_patch_size,
            image_processor.merge_size,
            tuple((torch.tensor(image_processor.image_mean) * scale).tolist()),
            tuple((torch.tensor(image_processor.image_std) * scale).tolist()),
        )
        pixels = _gradient(found.side * found.merge)
        whole = image_processor(images=[pixels], return_tensors="pt")
        patches, grid = pack(image_processor, pixels, found)
        same = torch.equal(grid, whole[GRIDS]) and torch.equal(
            unpack(patches, found), whole["pixel_values"]
        )
        return found if same else None

    @classmethod
    def read(cls, field: Tensor) -> PatchFormat:
        """Read what `field` wrote; of several rows, which have the same, the first."""
        side, frames, merge, *numbers = field[0].tolist()
        half = len(numbers) // 2
        return cls(int(side), int(frames), int(merge), tuple(numbers[:half]), tuple(numbers[half:]))

    def field(self) -> Tensor:
        """Return it as a field of a row, (1, 3 + 2 * channels) float32."""
        import torch

        return torch.tensor([[self.side, self.frames, self.merge, *self.mean, *self.std]])

    @property
    def channels(self) -> int:
        """Return the channels of a picture."""
        return len(self.mean)

    @property
    def patch_bytes(self) -> int:
        """Return the bytes of one patch."""
        return self.channels * self.side**2


def pack(image_processor: Any, pixels: Image, layout: PatchFormat) -> tuple[Tensor, Tensor]:
    """Resize and cut an image as its processor does: (p, channels * side * side) uint8, grid (1,
    3).
    """
    made = image_processor(
        images=[pixels], return_tensors="pt", do_rescale=False, do_normalize=False
    )
    clip = made["pixel_values"].view(-1, layout.channels, layout.frames, layout.side**2)
    return clip[:, :, 0].reshape(len(clip), -1), made[GRIDS]


def unpack(patches: Tensor, layout: PatchFormat, dtype: torch.dtype | None = None) -> Tensor:
    """Make `pixel_values` of patches where they are; see `unpack_each`."""
    return unpack_each([patches], layout, dtype=dtype, device=patches.device)


def unpack_each(
    images: Sequence[Tensor], layout: PatchFormat, *, dtype: torch.dtype | None = None, device: Any
) -> Tensor:
    """Make the `pixel_values` of several images, which are read where they are and joined as
    features.

    Images are (p, channels * side * side) uint8, each with a p of its own; the features, made on
    `device`, are (sum of all p, channels * frames * side * side), float32 by default.
    """
    import torch

    device = torch.device(device)
    shape = (layout.channels, layout.side**2)
    mean = torch.tensor(layout.mean, device=device)[:, None]
    std = torch.tensor(layout.std, device=device)[:, None]
    sizes = [len(patches) for patches in images]
    made = torch.empty(
        sum(sizes), layout.channels, layout.frames, layout.side**2, dtype=dtype, device=device
    )
    for patches, part in zip(images, made.split(sizes), strict=True):
        step = _CACHED if device.type == "cpu" else max(1, len(patches))
        for bytes_, values in zip(patches.to(device).split(step), part.split(step), strict=True):
            # the operations of the processor, in its order: the same numbers
            numbers = bytes_.view(-1, *shape).to(torch.float32).sub_(mean).div_(std)
            values.copy_(numbers[:, :, None])
    return made.view(len(made), -1)


def features(row: dict[str, Tensor], device: Any | None = None) -> dict[str, Tensor]:
    """Return the fields of one row or of several joined with `pixel_values` in the place of the
    patches.

    A row without patches stays as it is. The features are made on `device`, by default where the
    patches are.
    """
    if PATCHES not in row:
        return row
    rest = {name: value for name, value in row.items() if name not in (PATCHES, FORMAT)}
    patches = row[PATCHES] if device is None else row[PATCHES].to(device)
    return {"pixel_values": unpack(patches, PatchFormat.read(row[FORMAT])), **rest}


def picture(patches: Tensor, grid: Tensor, layout: PatchFormat) -> Image:
    """Return the pixels of one image, as it was after the processor's resizing."""
    from PIL import Image

    high, wide = (int(n) // layout.merge for n in grid[0, 1:])
    merge = layout.merge
    side = layout.side
    tiles = patches.view(high, wide, merge, merge, layout.channels, side, side)
    pixels = tiles.permute(0, 2, 5, 1, 3, 6, 4).reshape(
        high * merge * side, wide * merge * side, -1
    )
    return Image.fromarray(pixels.numpy())


@lru_cache(maxsize=4)
def _gradient(unit: int) -> Image:
    """A picture in which no two patches are alike."""
    import numpy as np
    from PIL import Image

    high = 4 * unit
    wide = 6 * unit
    numbers = np.arange(high * wide * 3, dtype=np.uint32) * 2654435761 >> 11
    return Image.fromarray((numbers % 256).astype(np.uint8).reshape(high, wide, 3))
