"""Qwen2-VL and Qwen2.5-VL can process a micro-batch without images.

Upstream: verl 0.9.1, `verl/models/transformers/qwen2_vl.py`, `_get_input_embeds`. Without pixels it
runs the visual encoder on a blank image and adds `0.0 * image_embeds.mean()`, so that FSDP sees
that every parameter is used. Since transformers 5 the encoder returns a
`BaseModelOutputWithPooling`, which has no `.mean()`. An agent that answers before it opens a page
produces such a batch.

Qwen3-VL has the same branch and already unpacks the output
(`verl/models/transformers/qwen3_vl.py`).

No longer needed once that branch calls `unpack_visual_output` as the others do.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from docagent_rl.training.patching import TRAINING, Patch, replace

BLANK_GRID = (1, 4, 4)  # time, height and width in patches: four features after the 2x2 merge


def _blank_image_features(model: Any, like: torch.Tensor) -> torch.Tensor:
    """Return the visual encoder's features of a blank image, (4, hidden), on the device of `like`.

    The device of a weight would be wrong: FSDP2 keeps a reference model's weights in host memory
    while they are not in use.
    """
    from verl.utils.transformers_compat import unpack_visual_output

    vision = model.config.vision_config
    time, height, width = BLANK_GRID
    patch_size = vision.in_channels * vision.temporal_patch_size * vision.patch_size**2
    pixels = torch.zeros((time * height * width, patch_size), dtype=like.dtype, device=like.device)
    grid = torch.tensor([BLANK_GRID], dtype=torch.long, device=like.device)
    features, _ = unpack_visual_output(model.visual(pixels, grid_thw=grid))
    return features


def _apply(module: ModuleType) -> None:
    original = module._get_input_embeds

    def _get_input_embeds(
        model: Any,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        pixel_values_videos: torch.Tensor | None = None,
        image_grid_thw: torch.Tensor | None = None,
        video_grid_thw: torch.Tensor | None = None,
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Embed `input_ids` (b, t); if there are pixels, do as upstream does."""
        if pixel_values is not None or pixel_values_videos is not None:
            return original(
                model,
                input_ids,
                attention_mask,
                pixel_values,
                pixel_values_videos,
                image_grid_thw,
                video_grid_thw,
            )
        embeds = model.get_input_embeddings()(input_ids)
        embeds = embeds + 0.0 * _blank_image_features(model, embeds).mean().to(embeds)
        return embeds, None if attention_mask is None else attention_mask.to(embeds.device)

    replace(module, "_get_input_embeds", _get_input_embeds)


PATCH = Patch(
    name="qwen2_vl_batch_without_image",
    package="verl",
    versions="==0.9.1",
    reference="verl/models/transformers/qwen2_vl.py::_get_input_embeds",
    reason="with transformers 5 a micro-batch without images calls .mean() on a model output and "
    "fails",
    target_module="verl.models.transformers.qwen2_vl",
    apply=_apply,
    processes=TRAINING,
)
