"""A model family: everything that differs between the models that a run can train."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from docagent_rl.actions.coordinates import Frame
from docagent_rl.base.errors import UserError
from docagent_rl.documents.grid import GridRule, ImageGrid
from docagent_rl.models.layers import LayerBytes

KEY = "docagent.model_family"


@dataclass(frozen=True, slots=True)
class Vision:
    """Sizes and settings of a family's image input.

    `grid` is the grid of visual tokens, with the limits of the released checkpoints; `small` is
    that of the family's tiny model, if it differs. A patch is `patch` pixels wide, and `merge` x
    `merge` patches become one token. `frame` is the coordinate frame of the boxes in its
    pre-training. From the tower's configuration `block` computes the memory of one layer, and
    `outside` the bytes per patch that are kept before and after the layers.
    """

    grid: ImageGrid
    patch: int
    frame: Frame
    block: Callable[[Any], LayerBytes]
    outside: Callable[[Any], int]
    merge: int = 2
    small: ImageGrid | None = None

    @property
    def whole(self) -> bool:
        """True if images are passed on as they are shown, not as patches (`rollout.images`)."""
        return not self.grid.patches

    @property
    def patches(self) -> int:
        """The number of patches per visual token."""
        return self.merge**2

    def grid_of(self, *, tiny: bool) -> ImageGrid:
        """Return the grid of the released checkpoints, or that of the tiny model."""
        return (self.small if tiny else None) or self.grid

    def numbers(self, grid: ImageGrid) -> dict[str, int]:
        """Return the settings that an image processor needs for images to have this grid."""
        if grid.rule is GridRule.TILES:
            return {
                "size.height": grid.tile,
                "size.width": grid.tile,
                "max_patches": grid.max_tiles,
            }
        if grid.rule is GridRule.FILLS:
            pooled = {"patch_size": self.patch, "pooling_kernel_size": self.merge}
            return {**pooled, "max_soft_tokens": grid.most_tokens or 0}
        limits = {"size.shortest_edge": grid.min_pixels, "size.longest_edge": grid.max_pixels}
        return {"patch_size": self.patch, "merge_size": self.merge, **limits}


@dataclass(frozen=True, slots=True)
class Family:
    """A model family: what has to be known about a model before it is loaded.

    Everything else comes from the processor and the model: placeholders, position ids, the chat
    template and the layers.

    Args:
        name: the value of `docagent.model_family`.
        title: the name for people.
        model_types: the `model_type` of its configurations in transformers.
        layer: computes the memory of a layer of the language model, from the text configuration and
            the layer's number.
        vision: how it sees images; `None` for a text model.
        released: for each name on the hub, the values in `config.json` that differ from the
            defaults of transformers, and the numbers of attention heads.
    """

    name: str
    title: str
    model_types: tuple[str, ...]
    layer: Callable[[Any, int], LayerBytes]
    vision: Vision | None = None
    released: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def check_processor(self, image_processor: Any, grid: ImageGrid | None = None) -> None:
        """Check that an image processor produces `grid`, by default that of the family.

        Raises:
            UserError: it does not; the message names the first setting that differs.
        """
        if self.vision is None:
            return
        for name, expected in self.vision.numbers(grid or self.vision.grid).items():
            part, _, key = name.partition(".")
            value = getattr(image_processor, part, None)
            value = value[key] if key and value is not None else value
            if value != expected:
                raise UserError(
                    f"{KEY}={self.name}: {name} of the model's image processor is {value}, but "
                    f"{expected} for this family, so that boxes and token counts would be wrong. "
                    "Set the model's own family, or restore its preprocessor_config.json"
                )
