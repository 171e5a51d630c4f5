"""Images as patches of bytes: the output of the Qwen-VL family's processor before normalisation.

The processor's features repeat every patch for each frame of a clip, as float32: eight times the
bytes of the image. Only the bytes are cached, sent and stored; the features are computed where a
model needs them, bit-identical to those of the processor.
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
"""The processor's own field: (i, 3) int64, the patches of each image over time, height and
width.
"""

_CACHED = 512
"""The number of patches whose features fit into a CPU cache, so that intermediate results do not go
through memory.
"""


@dataclass(frozen=True, slots=True)
class PatchFormat:
    """The parameters with which bytes are converted to features.

    A patch has `side` x `side` pixels and is repeated `frames` times (`temporal_patch_size`);
    `merge` x `merge` patches become one token (`merge_size`). `mean` and `std` are per channel, in
    units of bytes.
    """

    side: int
    frames: int
    merge: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    @classmethod
    def of(cls, image_processor: Any) -> PatchFormat | None:
        """Detect the format of a processor by running it on a small picture.

        Returns `None` if the processor works in another way; images are then transferred whole.
        """
        try:
            return cls._probed(image_processor)
        except (AttributeError, TypeError, KeyError, RuntimeError):  # RuntimeError: other shapes
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
        """Parse the output of `field`; all rows of a batch have the same format."""
        side, frames, merge, *numbers = field[0].tolist()
        half = len(numbers) // 2
        return cls(int(side), int(frames), int(merge), tuple(numbers[:half]), tuple(numbers[half:]))

    def field(self) -> Tensor:
        """Return the format as a field of a row, (1, 3 + 2 * channels) float32."""
        import torch

        return torch.tensor([[self.side, self.frames, self.merge, *self.mean, *self.std]])

    @property
    def channels(self) -> int:
        """Return the number of channels of an image."""
        return len(self.mean)

    @property
    def patch_bytes(self) -> int:
        """Return the size of one patch in bytes."""
        return self.channels * self.side**2


def pack(image_processor: Any, pixels: Image, layout: PatchFormat) -> tuple[Tensor, Tensor]:
    """Resize an image and split it into patches as its processor does.

    Returns:
        The patches, (p, channels * side * side) uint8, and the grid, (1, 3).
    """
    made = image_processor(
        images=[pixels], return_tensors="pt", do_rescale=False, do_normalize=False
    )
    clip = made["pixel_values"].view(-1, layout.channels, layout.frames, layout.side**2)
    return clip[:, :, 0].reshape(len(clip), -1), made[GRIDS]


def unpack(patches: Tensor, layout: PatchFormat, dtype: torch.dtype | None = None) -> Tensor:
    """Compute `pixel_values` from patches, on the device of the patches; see `unpack_each`."""
    return unpack_each([patches], layout, dtype=dtype, device=patches.device)


def unpack_each(
    images: Sequence[Tensor], layout: PatchFormat, *, dtype: torch.dtype | None = None, device: Any
) -> Tensor:
    """Compute the `pixel_values` of several images, concatenated, without joining the patches
    first.

    Images are (p, channels * side * side) uint8, and p may differ between them. The features are on
    `device`, of shape (sum of all p, channels * frames * side * side), float32 by default.
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
            # the same operations in the same order as the processor, for bit-identical numbers
            numbers = bytes_.view(-1, *shape).to(torch.float32).sub_(mean).div_(std)
            values.copy_(numbers[:, :, None])
    return made.view(len(made), -1)


def features(row: dict[str, Tensor], device: Any | None = None) -> dict[str, Tensor]:
    """Replace the patches of one row, or of several joined rows, by `pixel_values`.

    A row without patches is returned as it is. The features are computed on `device`, by default
    the device of the patches.
    """
    if PATCHES not in row:
        return row
    rest = {name: value for name, value in row.items() if name not in (PATCHES, FORMAT)}
    patches = row[PATCHES] if device is None else row[PATCHES].to(device)
    return {"pixel_values": unpack(patches, PatchFormat.read(row[FORMAT])), **rest}


def picture(patches: Tensor, grid: Tensor, layout: PatchFormat) -> Image:
    """Reassemble one image from its patches, as it was after the processor's resizing."""
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
    """Return a picture in which no two patches are equal."""
    import numpy as np
    from PIL import Image

    high = 4 * unit
    wide = 6 * unit
    numbers = np.arange(high * wide * 3, dtype=np.uint32) * 2654435761 >> 11
    return Image.fromarray((numbers % 256).astype(np.uint8).reshape(high, wide, 3))
