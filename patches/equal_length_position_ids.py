"""Rows of equal length keep their position ids.

Upstream: verl 0.9.1, `verl/utils/tensordict_utils.py`, `maybe_fix_3d_position_ids`. The position
ids of a row of a vision-language model are (4, length). If all rows of a worker have the same
length (all cut at the longest response, or a single row), the nested tensor that comes out of
TransferQueue has its rows stacked, (4 rows, length), and not side by side, (4, total length): torch
cannot tell which dimension is the ragged one, and uses the first. The function declares the last
one ragged without checking, and the batch then fails with "The size of tensor a (4) must match the
size of tensor b".

Here such a tensor is rebuilt before the function is called.

No longer needed once verl handles rows of equal length.
"""

from __future__ import annotations

from types import ModuleType

from tensordict import TensorDict
from torch import Tensor

from docagent_rl.training.patching import TRAINING, Patch, replace

FIELD = "position_ids"
RAGGED = 2


def _apply(module: ModuleType) -> None:
    fix = module.maybe_fix_3d_position_ids

    def maybe_fix_3d_position_ids(data: TensorDict) -> None:
        nested = data.get(FIELD, None)
        if isinstance(nested, Tensor) and nested.is_nested and nested.dim() == 3:
            values = nested._values
            offsets = nested.offsets()
            rows = len(offsets) - 1
            total = int(offsets[-1])
            # otherwise the values are (4, total length)
            if values.shape[0] == total != values.shape[1] and total % rows == 0:
                split = list(values.reshape(rows, total // rows, -1).unbind())
                data[FIELD] = module.nested_tensor_from_tensor_list(split, ragged_idx=RAGGED)
        fix(data)

    replace(module, "maybe_fix_3d_position_ids", maybe_fix_3d_position_ids)


PATCH = Patch(
    name="equal_length_position_ids",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/tensordict_utils.py, maybe_fix_3d_position_ids",
    reason="a batch of a vision-language model whose rows have equal lengths ends the run",
    target_module="verl.utils.tensordict_utils",
    apply=_apply,
    processes=TRAINING,
)
