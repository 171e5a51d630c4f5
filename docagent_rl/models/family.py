"""A model family: everything that differs between models which a run may train."""

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
    """The images of a family.

    `grid` is of visual tokens, with the limits of the released checkpoints; `small` that of the
    family's tiny model, where it is another. A patch has a side of `patch` pixels, and `merge` of a
    side become one token. `frame`: in which its pre-training writes boxes. From the tower's
    configuration `block` gives the memory of one layer, and `outside` the bytes that are kept of a
    patch before and behind the layers.
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
        """True where images travel as they are shown (`rollout.images`)."""
        return not self.grid.patches

    @property
    def patches(self) -> int:
        """Patches of a visual token."""
        return self.merge**2

    def grid_of(self, *, tiny: bool) -> ImageGrid:
        """Return the grid of released checkpoints, or that of the tiny model."""
        return (self.small if tiny else None) or self.grid

    def numbers(self, grid: ImageGrid) -> dict[str, int]:
        """Return what an image processor has to say for the family's images to have this grid."""
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
    """A model family: what has to be known of a model before it is loaded.

    Placeholders, position ids, its template and its layers are asked of processor and model.

    Args:
        name: `docagent.model_family`.
        title: as people write it.
        model_types: `model_type` of its configurations in transformers.
        layer: the memory of a layer of the language model, from the configuration of its text and
            its number.
        vision: its images; `None`: a model of text.
        released: by name on the hub, what in `config.json` differs from the defaults of
            transformers.
    """

    name: str
    title: str
    model_types: tuple[str, ...]
    layer: Callable[[Any, int], LayerBytes]
    vision: Vision | None = None
    released: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def check_processor(self, image_processor: Any, grid: ImageGrid | None = None) -> None:
        """Refuse an image processor that sees images otherwise than by `grid`, the family's by
        default.

        Raises:
            UserError: names the first number that differs.
        """
        if self.vision is None:
            return
        for name, expected in self.vision.numbers(grid or self.vision.grid).items():
            part, _, key = name.partition(".")
            value = getattr(image_processor, part, None)
            value = value[key] if key and value is not None else value
            if value != expected:
                raise UserError(
                    f"{KEY}={self.name}: {name} of the model's image processor is {value}, of the "
                    "family "
                    f"{expected}: boxes and token counts would be wrong. Name the family of the "
                    "model, "
                    "or restore its preprocessor_config.json"
                )
