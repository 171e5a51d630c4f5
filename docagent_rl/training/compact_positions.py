"""Position ids of training rows in a few hundred bytes, lossless for every model family.

Position ids grow by one from token to token, except around images, where each family has its own
rule. The runs of equal differences describe that in a few numbers: a row of 10,240 tokens with 13
images of Qwen2.5-VL takes 232 bytes in place of 327,680. Reading them back takes .2 ms, while
`get_rope_index` takes 9, and needs the model's configuration.
"""

import zlib

import numpy as np
import torch
from torch import Tensor

_LEVEL = 1
_HEADER = 0x0178
"""The first two bytes of every zlib stream of that level. Position ids of a row begin with 0."""


def compact(positions: Tensor) -> Tensor:
    """Return position ids, (t,) or (axes, t) integers, as a stream: (n,) int64.

    The dtype is that of position ids, so that a queue can hold both side by side.

    Raises:
        ValueError: the positions are outside of the range of 32 bits, or there are none.
    """
    whole = positions.numpy()
    if not whole.size or np.abs(whole).max() >= 2**30:
        raise ValueError(f"position ids {tuple(whole.shape)} are empty, or beyond 32 bits")
    steps = np.diff(whole, prepend=0).ravel()
    starts = np.flatnonzero(np.diff(steps, prepend=steps[0] - 1))
    lengths = np.diff(starts, append=steps.size)
    axes = len(whole) if whole.ndim == 2 else 0
    runs = np.concatenate([[axes], steps[starts], lengths]).astype(np.int32)
    stream = zlib.compress(runs.tobytes(), _LEVEL)
    return torch.frombuffer(bytearray(stream + bytes(-len(stream) % 8)), dtype=torch.int64)


def is_compact(positions: Tensor) -> bool:
    """Return whether a row's position ids are a stream of `compact`."""
    return positions.dim() == 1 and len(positions) > 0 and int(positions[0]) & 0xFFFF == _HEADER


def expand_positions(stream: Tensor) -> Tensor:
    """Return the position ids of a stream as int64, with the shape that they had."""
    # a stream ends by itself, before the bytes that fill up the last integer
    runs = np.frombuffer(zlib.decompressobj().decompress(stream.numpy().tobytes()), np.int32)
    axes, count = int(runs[0]), len(runs) // 2
    steps = np.repeat(runs[1 : 1 + count].astype(np.int64), runs[1 + count :])
    shape = (axes, -1) if axes else (-1,)
    return torch.from_numpy(np.cumsum(steps.reshape(shape), axis=-1))
