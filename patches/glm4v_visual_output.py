"""GLM-4V's vision tower with transformers 5.

Upstream: verl 0.9.1, `verl/models/transformers/glm4v.py`, `_get_input_embeds`. It expects the tower
to return a tensor of features. Since transformers 5 it returns a model output with the features in
`pooler_output`: every forward pass fails, with and without images.

Here the function gets a view of the model whose tower returns the features.

No longer needed once it calls `unpack_visual_output` as `verl/models/transformers/qwen3_vl.py`
does.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch

from docagent_rl.training.patching import TRAINING, Patch, replace


class _Tower:
    """A vision tower that returns features, (tokens, hidden)."""

    def __init__(self, tower: Any) -> None:
        self._tower = tower
        self.dtype = tower.dtype

    def __call__(self, pixels: torch.Tensor, **grids: torch.Tensor) -> torch.Tensor:
        from verl.utils.transformers_compat import unpack_visual_output

        features, _ = unpack_visual_output(self._tower(pixels, **grids))
        return features


class _Model:
    """The part of a model that the function uses."""

    def __init__(self, model: Any) -> None:
        self.config = model.config
        self.get_input_embeddings = model.get_input_embeddings
        self.visual = _Tower(model.visual)


def _apply(module: ModuleType) -> None:
    original = module._get_input_embeds

    def _get_input_embeds(
        model: Any, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Embed ids and images as upstream does."""
        return original(_Model(model), *args, **kwargs)

    replace(module, "_get_input_embeds", _get_input_embeds)


PATCH = Patch(
    name="glm4v_visual_output",
    package="verl",
    versions="==0.9.1",
    reference="verl/models/transformers/glm4v.py::_get_input_embeds",
    reason="with transformers 5 every forward pass of GLM-4V fails, as it takes a model output for "
    "a tensor",
    target_module="verl.models.transformers.glm4v",
    apply=_apply,
    processes=TRAINING,
)
