"""Images are sent as patches of bytes, and become features at the beginning of a pass.

Upstream: verl 0.9.1, `verl/utils/model.py`, `extract_multi_modal_inputs`, which every training
engine calls for the rows of a micro-batch. There is no registry for such fields. The bytes are
copied to the device and become features there; upstream copies features. For rows that refer to
images by name, the bytes come from Ray's object store. Rows of other agent loops contain features,
and are joined as upstream does.

No longer needed once verl lets users define how a row's `multi_modal_inputs` are built.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from tensordict.tensorclass import NonTensorData
from torch import Tensor

from docagent_rl.training.patching import TRAINING, Patch, replace

NAMES = "docagent_image_names"
"""Equal to `NAMES` in `training.serving.image_cache`, which is not imported as it imports Ray."""


def _row(stored: Any) -> dict[str, Tensor]:
    return (stored.data if isinstance(stored, NonTensorData) else stored) or {}


def _apply(module: ModuleType) -> None:
    original = module.extract_multi_modal_inputs

    def extract_multi_modal_inputs(
        batch_data: list[dict[str, Tensor]], indices: list[int] | None = None
    ) -> dict[str, Tensor | list[Tensor]]:
        """Join the rows as upstream does, then compute features from their patches."""
        from verl.utils.device import get_device_id

        from docagent_rl.rollout.patches import features

        rows = [_row(each) for each in batch_data]
        if indices is not None:
            rows = [rows[index] for index in indices if index < len(rows)]
        if any(NAMES in row for row in rows):
            from docagent_rl.training.serving.image_cache import fetch_images, join_named

            if all(NAMES in row or not row for row in rows):
                return join_named(rows, original, get_device_id())
            rows = [fetch_images(row) for row in rows]
        if any("pixel_values" in row for row in rows):
            # some rows come from another agent loop; the images must stay in the order of the rows
            return original([features(row) for row in rows])
        return {**features(original(rows), get_device_id())}

    replace(module, "extract_multi_modal_inputs", extract_multi_modal_inputs)


PATCH = Patch(
    name="byte_patches",
    package="verl",
    versions="==0.9.1",
    reference="verl/utils/model.py::extract_multi_modal_inputs",
    reason="images would be stored, sent and fetched as float32 features, eight times their bytes",
    target_module="verl.utils.model",
    apply=_apply,
    processes=TRAINING,
)
