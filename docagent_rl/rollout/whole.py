"""Images for processors that do not cut them into patches of bytes.

They travel as they are shown. Rollout server and trainer have the model's own processor make features of
them, each for itself and each time that they are read: slower than patches, and the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from docagent_rl.base.errors import UserError

if TYPE_CHECKING:
    from PIL.Image import Image
    from torch import Tensor

_OF_TEXT = frozenset({"input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids"})


@lru_cache(maxsize=4)
def marks(processor: Any) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the tokens that a processor puts before and after the placeholders of an image.

    Raises:
        UserError: it puts others between them.
    """
    ids, token = _blank(processor), int(processor.image_token_id)
    places = [place for place, each in enumerate(ids) if each == token]
    if not places or len(places) != places[-1] - places[0] + 1:
        raise UserError(
            f"the processor {type(processor).__name__} does not write an image as one run of placeholders: "
            "use a model of a family in docs/models.md"
        )
    return tuple(ids[: places[0]]), tuple(ids[places[-1] + 1 :])


def whole_tokens(sizes: Sequence[tuple[int, int]], processor: Any) -> list[int]:
    """Count placeholders of images by their sizes, `(width, height)` in pixels, as the processor does."""
    shapes = [_BLANK, *sizes]
    counts = processor._get_num_multimodal_tokens(image_sizes=[(high, wide) for wide, high in shapes])
    blank, *others = counts["num_image_tokens"]
    beside = blank - _blank(processor).count(int(processor.image_token_id))  # marks, if it counts them
    return [count - beside for count in others]


def whole_features(pictures: Sequence[Image], processor: Any) -> dict[str, Tensor]:
    """Return what a processor makes of the images of a row, joined as the model takes them."""
    if not pictures:
        return {}
    made = _processed(processor, pictures)
    return {name: value for name, value in made.items() if name not in _OF_TEXT}


_BLANK = (64, 64)


@lru_cache(maxsize=4)
def _blank(processor: Any) -> list[int]:
    from PIL import Image

    return _processed(processor, [Image.new("RGB", _BLANK)])["input_ids"][0].tolist()


def _processed(processor: Any, pictures: Sequence[Image]) -> Any:
    text = processor.image_token * len(pictures)
    return processor(text=[text], images=list(pictures), return_tensors="pt", add_special_tokens=False)
