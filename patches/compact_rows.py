"""Rows carry position ids in a few numbers and no field twice; engines get what they read.

Upstream: verl 0.9.1. Position ids of a vision-language model are (4, length) int64: 32 bytes a
token, 43 % of a row, stored once and fetched in every pass. `DocAgentLoopWorker` stores them as
`training.compact_positions` does. The passes of our trainer modes do not fetch `input_ids`, which
are prompts and responses, and `loss_mask`, which is `response_mask` (`training.trainer.passes`).
`verl/utils/tensordict_utils.py`, `maybe_fix_3d_position_ids` is what every engine and worker calls
on a batch before it reads any of these, so they are made there.
`verl/trainer/ppo/padding_utils.py`, `build_padding_position_ids` makes position ids of empty rows
after the example of another row, which may be compact. There is no registry for either.

Rows of other agent loop managers, and of checkpoints of earlier versions, have whole position ids.

No longer needed once verl lets users define how a row's fields are stored.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from docagent_rl.training.compact_positions import compact, expand_positions, is_compact
from docagent_rl.training.patching import TRAINING, Patch, replace

POSITIONS = "position_ids"
IDS = "input_ids"
PARTS = ("prompts", "responses")


def _rows(field: Any) -> list[Tensor]:
    """Return the rows of a field; a queue with rows of several dimensions hands over a list."""
    return list(field.unbind() if isinstance(field, Tensor) else field.tolist())


def _in_batches(module: ModuleType) -> None:
    fix = module.maybe_fix_3d_position_ids
    join = module.nested_tensor_from_tensor_list

    def maybe_fix_3d_position_ids(data: TensorDict) -> None:
        names = set(data.keys())
        field = data.get(POSITIONS, None)
        # compact rows have one dimension, the position ids that upstream knows up to two
        if field is not None and not (isinstance(field, Tensor) and field.dim() > 2):
            rows = _rows(field)
            if any(map(is_compact, rows)):
                data[POSITIONS] = join(
                    [expand_positions(row) if is_compact(row) else row for row in rows]
                )
        if names.issuperset(PARTS) and IDS not in names:
            parts = zip(*(_rows(data[name]) for name in PARTS), strict=True)
            data[IDS] = join([torch.cat(pair) for pair in parts])
        if "response_mask" in names and "loss_mask" not in names:
            data["loss_mask"] = data["response_mask"]
        fix(data)

    replace(module, "maybe_fix_3d_position_ids", maybe_fix_3d_position_ids)


def _in_padding(module: ModuleType) -> None:
    build = module.build_padding_position_ids

    def build_padding_position_ids(source_position_ids: Any, attention_mask: Tensor) -> Tensor:
        source = source_position_ids
        if not isinstance(source, torch.Tensor) or not is_compact(source):
            return build(source, attention_mask)
        return compact(build(expand_positions(source), attention_mask))

    replace(module, "build_padding_position_ids", build_padding_position_ids)


def _apply(module: ModuleType) -> None:
    if module.__name__ == PATCH.target_module:
        _in_batches(module)
    else:
        _in_padding(module)


PATCH = Patch(
    name="compact_rows",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/tensordict_utils.py::maybe_fix_3d_position_ids, "
    "verl/trainer/ppo/padding_utils.py::build_padding_position_ids",
    reason="position ids would be 43 % of what a row takes in the queue, and half of what a pass "
    "fetches; another quarter would be there twice",
    target_module="verl.utils.tensordict_utils",
    apply=_apply,
    processes=TRAINING,
    more_modules=("verl.trainer.ppo.padding_utils",),
)
